// Parts of what users contribute to releases. A user's sums run over their own entries, in order. Compiled as exact.c is.

#include "common.h"

// Entries scaled to a length of 1 in each row, unless all of its entries are 0.
EXPORT void unit_rows(const double *entries, const int64_t *indptr, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double squares = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) squares += entries[e] * entries[e];
    double length = squares > 0 ? sqrt(squares) : 1;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) out[e] = entries[e] / length;
  }
}

// Each row has some numbers; entry p of it gets number p % each.
EXPORT void spread_rows(const double *numbers, const int64_t *indptr, int64_t n, int64_t each, double *out) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t e = indptr[i], at = 0; e < indptr[i + 1]; e++, at = at + 1 < each ? at + 1 : 0)
      out[e] = numbers[i * each + at];
}

// For each row and fold, the sum of entries times loadings (d) over the other folds; entry p is in fold p % folds.
EXPORT void other_folds(const void *items, int64_t bytes, const int64_t *indptr, int64_t n, const double *entries,
                        const double *loadings, int64_t d, int64_t folds, double *out) {
  for (int64_t i = 0; i < n; i++, out += folds * d) {
    memset(out, 0, sizeof(double) * folds * d);
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
      const double *own = loadings + item_at((Indices){items, bytes}, e) * d;
      double *sum = out + (e - indptr[i]) % folds * d;
      for (int64_t j = 0; j < d && entries[e] != 0; j++) sum[j] += entries[e] * own[j];
    }
    for (int64_t j = 0; j < d; j++) {
      double all = 0;
      for (int64_t f = 0; f < folds; f++) all += out[f * d + j];
      for (int64_t f = 0; f < folds; f++) out[f * d + j] = all - out[f * d + j];
    }
  }
}
