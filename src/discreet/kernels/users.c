// What users contribute to the releases of DPALS before its item steps; models/als/contributions.py has the formulas.
//
// A user's sums run over their own entries, in order. Compiled as exact.c is.

#include "common.h"

// A row for each user: the moments of their ratings, and behind them a 1 in the place of the magnitude of the variance.
EXPORT void own_moments(const double *values, const int64_t *indptr, int64_t n, double reach, int64_t magnitudes,
                        double *out) {
  const double half = sqrt(0.5);
  for (int64_t i = 0; i < n; i++, out += 5 + magnitudes) {
    int64_t first = indptr[i], last = indptr[i + 1];
    double count = last > first ? (double)(last - first) : 1, sum = 0, squares = 0;
    for (int64_t e = first; e < last; e++) sum += values[e];
    double mean = sum / count, x = mean / reach;
    for (int64_t e = first; e < last; e++) squares += (values[e] - mean) * (values[e] - mean);
    double d = squares / count / (reach * reach);
    memset(out, 0, sizeof(double) * (5 + magnitudes));
    out[0] = (1 + x) * half, out[1] = (1 - x) * half, out[2] = d, out[3] = 1 - 1 / count, out[4] = x * x;
    if (d > 0) {
      int exponent;
      frexp(d, &exponent);
      int64_t place = exponent < 0 ? -exponent / 2 : 0;  // the exponent is exact, as no logarithm is
      out[5 + (place < magnitudes ? place : magnitudes - 1)] = 1;
    }
  }
}

static double length_of(Indices items, const double *a, int64_t first, int64_t last) {
  double squares = 0;
  for (int64_t e = first; e < last; e++) {
    double own = a ? a[item_at(items, e)] : 1;
    squares += own * own;
  }
  return squares > 0 ? sqrt(squares) : 1;
}

// Users' a of their items (NULL: 1), scaled to length 1; with values, times these about their mean, which `penalty` more
// values of `mean` are averaged with.
EXPORT void own_weights(const void *data, int64_t bytes, const int64_t *indptr, int64_t n, const double *a,
                        const double *values, double mean, double penalty, double *out) {
  Indices items = {data, bytes};
  for (int64_t i = 0; i < n; i++) {
    int64_t first = indptr[i], last = indptr[i + 1];
    double length = length_of(items, a, first, last), sum = 0;
    for (int64_t e = first; e < last; e++) out[e] = (a ? a[item_at(items, e)] : 1) / length;
    if (!values) continue;
    for (int64_t e = first; e < last; e++) sum += values[e];
    double own = (sum + penalty * mean) / ((double)(last - first) + penalty);
    for (int64_t e = first; e < last; e++) out[e] *= values[e] - own;
  }
}

// The entries on items that have a place, and their places; `ends` is where a user's end.
EXPORT void select_entries(const void *data, int64_t bytes, const int64_t *indptr, int64_t n, const double *entries,
                           const int32_t *place, int64_t *ends, uint32_t *places, double *out) {
  Indices items = {data, bytes};
  int64_t found = 0;
  ends[0] = 0;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
      int32_t at = place[item_at(items, e)];
      if (at >= 0) places[found] = (uint32_t)at, out[found++] = entries[e];
    }
    ends[i + 1] = found;
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
