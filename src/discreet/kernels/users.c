// What users contribute to the releases of DPALS before its item steps; models/als/contributions.py has the formulas.
//
// A user's sums run over their own entries, in order. Compiled as exact.c is.

#include "common.h"

static double length_of(Indices items, const double *a, int64_t first, int64_t last) {
  double squares = 0;
  for (int64_t e = first; e < last; e++) {
    double own = a ? a[item_at(items, e)] : 1;
    squares += own * own;
  }
  return squares > 0 ? sqrt(squares) : 1;
}

// Users' a of their items (NULL: 1), scaled to length 1.
EXPORT void own_weights(const void *data, int64_t bytes, const int64_t *indptr, int64_t n, const double *a, double *out) {
  Indices items = {data, bytes};
  for (int64_t i = 0; i < n; i++) {
    double length = length_of(items, a, indptr[i], indptr[i + 1]);
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) out[e] = (a ? a[item_at(items, e)] : 1) / length;
  }
}

// Users' values about their mean, which is averaged with `count` more values of `mean`.
EXPORT void own_deviations(const double *values, const int64_t *indptr, int64_t n, double mean, double count,
                           double *out) {
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) sum += values[e];
    double own = (sum + count * mean) / ((double)(indptr[i + 1] - indptr[i]) + count);
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) out[e] = values[e] - own;
  }
}

// Where users stand on d directions, for the items of each fold by those of the other folds: directions (n, folds, d) of
// length 1, and for each item x = its weight times the length before that, scaled to length 1.
EXPORT void extension(const void *data, int64_t bytes, const int64_t *indptr, int64_t n, int64_t folds, int64_t d,
                      const double *loadings, const double *chosen, const double *a, double *x, double *directions) {
  Indices items = {data, bytes};
  double all[d], lengths[folds];
  for (int64_t i = 0; i < n; i++, directions += folds * d) {
    int64_t first = indptr[i], last = indptr[i + 1];
    double weight = length_of(items, chosen, first, last), own = length_of(items, a, first, last), size = 0;
    memset(directions, 0, sizeof(double) * folds * d);
    for (int64_t e = first; e < last; e++) {
      size_t item = item_at(items, e);
      double *sum = directions + (e - first) % folds * d;
      if (chosen[item] != 0)
        for (int64_t j = 0; j < d; j++) sum[j] += chosen[item] / weight * loadings[item * d + j];
    }
    for (int64_t j = 0; j < d; j++) {
      all[j] = 0;
      for (int64_t f = 0; f < folds; f++) all[j] += directions[f * d + j];
    }
    for (int64_t f = 0; f < folds; f++) {
      double squares = 0;
      for (int64_t j = 0; j < d; j++) {
        double other = all[j] - directions[f * d + j];
        squares += other * other, directions[f * d + j] = other;
      }
      lengths[f] = sqrt(squares);
      for (int64_t j = 0; j < d && squares > 0; j++) directions[f * d + j] /= lengths[f];
    }
    for (int64_t e = first; e < last; e++) {
      x[e] = a[item_at(items, e)] / own * lengths[(e - first) % folds];
      size += x[e] * x[e];
    }
    double scale = 1 / (size > 0 ? sqrt(size) : 1);
    for (int64_t e = first; e < last; e++) x[e] *= scale;
  }
}
