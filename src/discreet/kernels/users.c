// Parts of what users contribute to releases. A user's sums run over their own entries, in order. Compiled as exact.c is.

#include "common.h"

// Products of entries, of numbers of their items a, and of numbers of their folds, as far as these are given: scaled to a
// length of 1 in each row, unless all of them are 0.
EXPORT int64_t unit_rows(Rows rows, const double *entries, const double *a, const double *lengths, int64_t folds,
                         double *out) {
  if (a && !known(rows, 0, rows.n)) return 0;
  for (int64_t i = 0; i < rows.n; i++) {
    double squares = 0;
    for (int64_t e = rows.indptr[i], fold = 0; e < rows.indptr[i + 1]; e++, fold = fold + 1 < folds ? fold + 1 : 0) {
      out[e] = entries ? entries[e] : 1;
      if (a) out[e] *= a[item_at(rows, e)];
      if (lengths) out[e] *= lengths[i * folds + fold];
      squares += out[e] * out[e];
    }
    double length = squares > 0 ? sqrt(squares) : 1;
    for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++) out[e] /= length;
  }
  return 1;
}

// Entries of the items that have a place (-1: none), with it in place of the item, and where rows end then, (n + 1).
EXPORT int64_t placed_rows(Rows rows, const double *entries, const int64_t *place, uint32_t *kept, double *out,
                           int64_t *ends) {
  if (!known(rows, 0, rows.n)) return 0;
  int64_t count = ends[0] = 0;
  for (int64_t i = 0; i < rows.n; ends[++i] = count)
    for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++) {
      int64_t at = place[item_at(rows, e)];
      if (at >= 0) kept[count] = (uint32_t)at, out[count++] = entries[e];
    }
  return 1;
}

// Deviations of values from the mean of their row and of `penalty` numbers more, all `mean`.
EXPORT void deviations(const double *values, const int64_t *indptr, int64_t n, double penalty, double mean, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) sum += values[e];
    double own = (sum + penalty * mean) / ((double)(indptr[i + 1] - indptr[i]) + penalty);
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) out[e] = values[e] - own;
  }
}

// For each row and fold, the sum of entries times loadings (d) over the other folds, as a length and a direction (0: none);
// entry p is in fold p % folds.
EXPORT int64_t other_folds(Rows rows, const double *entries, const double *loadings, int64_t d, int64_t folds,
                           double *lengths, double *out) {
  if (!known(rows, 0, rows.n)) return 0;
  for (int64_t i = 0; i < rows.n; i++, lengths += folds, out += folds * d) {
    memset(out, 0, sizeof(double) * folds * d);
    for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++) {
      const double *own = loadings + item_at(rows, e) * d;
      double *sum = out + (e - rows.indptr[i]) % folds * d;
      for (int64_t j = 0; j < d && entries[e] != 0; j++) sum[j] += entries[e] * own[j];
    }
    for (int64_t j = 0; j < d; j++) {
      double all = 0;
      for (int64_t f = 0; f < folds; f++) all += out[f * d + j];
      for (int64_t f = 0; f < folds; f++) out[f * d + j] = all - out[f * d + j];
    }
    for (int64_t f = 0; f < folds; f++) {
      double squares = 0, *sum = out + f * d;
      for (int64_t j = 0; j < d; j++) squares += sum[j] * sum[j];
      lengths[f] = sqrt(squares);
      for (int64_t j = 0; j < d && lengths[f] > 0; j++) sum[j] /= lengths[f];
    }
  }
  return 1;
}
