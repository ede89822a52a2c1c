// Integers on a grid, and their sums: what `discreet.privacy` does in NumPy, to the last bit, and faster.
//
// Compiled without contraction of products and sums (-ffp-contract=off), once for all instruction sets: a rounding that
// differs from NumPy's would give other integers. Tests compare each function with its twin on hostile input.

#include "common.h"

// Rows of values as integers on the grid, of L2 norm at most limit: lattice.truncate says how. `largest` is the floor of
// limit squared. What is not finite counts as zero.
typedef struct {
  double step, limit;
  int64_t largest;
} Bound;

static void truncate_row(const double *values, int64_t n, Bound bound, double least, int64_t *out) {
  double squares = 0;
  for (int64_t e = 0; e < n; e++) {
    double value = values[e] < least ? least : values[e], units = isfinite(value) ? value / bound.step : 0.0;
    squares += units * units;
  }
  double length = sqrt(squares), factor = bound.limit / (length > bound.limit ? length : bound.limit);
  double shorten[3] = {1, 1 - 0x1p-40, 0};
  for (int round = 0; round < 3; round++) {
    int64_t total = 0;
    for (int64_t e = 0; e < n; e++) {
      double value = values[e] < least ? least : values[e], units = isfinite(value) ? value / bound.step : 0.0;
      double scaled = units * factor * shorten[round];
      out[e] = isfinite(scaled) ? (int64_t)scaled : 0;
      total += out[e] * out[e];
    }
    if (total <= bound.largest) break;
  }
}

EXPORT void truncate_rows(const double *values, const int64_t *indptr, int64_t n, double step, double limit,
                          int64_t largest, int64_t *out) {
  for (int64_t i = 0; i < n; i++)
    truncate_row(values + indptr[i], indptr[i + 1] - indptr[i], (Bound){step, limit, largest}, -INFINITY, out + indptr[i]);
}

// Whether rows end where the next one begins, or later.
EXPORT int64_t ascending(const int64_t *indptr, int64_t n) {
  int falls = 0;
  for (int64_t i = 0; i < n; i++) falls |= indptr[i + 1] < indptr[i];
  return !falls;
}

// Whether all of some items are below size.
#define MOST(type)                                                                             \
  {                                                                                            \
    type high = 0;                                                                             \
    const type *own = items;                                                                   \
    for (int64_t e = begin; e < end; e++) high = own[e] > high ? own[e] : high;                \
    most = high;                                                                               \
  }
EXPORT int64_t below(const void *items, int64_t bytes, int64_t begin, int64_t end, int64_t size) {
  uint32_t most = 0;
  if (bytes == 1) MOST(uint8_t)
  else if (bytes == 2) MOST(uint16_t)
  else MOST(uint32_t)
  return begin >= end || most < size;
}

// Whether every row's items rise, and are below size: then each of them counts once.
EXPORT int64_t rising_rows(const void *data, int64_t bytes, const int64_t *indptr, int64_t begin, int64_t end,
                           int64_t size) {
  const Indices items = {data, bytes};
  int falls = 0;
  for (int64_t i = begin; i < end && !falls; i++) {
    for (int64_t e = indptr[i] + 1; e < indptr[i + 1]; e++) falls |= item_at(items, e) <= item_at(items, e - 1);
    falls |= indptr[i] < indptr[i + 1] && (int64_t)item_at(items, indptr[i + 1] - 1) >= size;
  }
  return !falls;
}

// total[item] (k) += x a, for the truncated entries x of rows, of which none is less than `least`, and the truncated
// vector a of the entry: entry p of a row has its row's vector p % each. Without vectors total[item] += x.
EXPORT int64_t add_rows(const void *items, int64_t bytes, const double *entries, const int64_t *indptr, int64_t n,
                        double least, double step, double limit, int64_t largest, const double *vectors, int64_t each,
                        int64_t k, double a_step, double a_limit, int64_t a_largest, int64_t *total) {
  int64_t longest = 1;
  for (int64_t i = 0; i < n; i++) longest = indptr[i + 1] - indptr[i] > longest ? indptr[i + 1] - indptr[i] : longest;
  int64_t *x = malloc(sizeof(int64_t) * (longest + each * k)), *a = x + longest;
  if (!x) return 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t first = indptr[i], count = indptr[i + 1] - first;
    truncate_row(entries + first, count, (Bound){step, limit, largest}, least, x);
    for (int64_t f = 0; f < each; f++)
      truncate_row(vectors + (i * each + f) * k, k, (Bound){a_step, a_limit, a_largest}, -INFINITY, a + f * k);
    for (int64_t e = 0, at = 0; e < count; e++, at = at + 1 < each ? at + 1 : 0) {
      int64_t *out = total + item_at((Indices){items, bytes}, first + e) * k;
      if (!each) *out += x[e];
      for (int64_t j = 0; j < k && each; j++) out[j] += x[e] * a[at * k + j];
    }
  }
  free(x);
  return 1;
}

// total (k, k) += the sum of x x^T on and above the diagonal: n rows of `each` vectors x, truncated together.
EXPORT int64_t add_squares(const double *rows, int64_t n, int64_t each, int64_t k, double step, double limit,
                           int64_t largest, int64_t *total) {
  int64_t *x = malloc(sizeof(int64_t) * (each * k + 1));
  if (!x) return 0;
  for (int64_t i = 0; i < n; i++, rows += each * k) {
    truncate_row(rows, each * k, (Bound){step, limit, largest}, -INFINITY, x);
    for (int64_t f = 0; f < each * k; f += k)
      for (int64_t a = 0; a < k; a++)
        for (int64_t b = a; b < k; b++) total[a * k + b] += x[f + a] * x[f + b];
  }
  free(x);
  return 1;
}

// total[a][b] += x_a x_b, for each two items a <= b of a row; total has `size` columns.
EXPORT void scatter_gram(const void *data, int64_t bytes, const int64_t *x, const int64_t *indptr, int64_t n,
                         int64_t size, int64_t *total) {
  const Indices items = {data, bytes};
  for (int64_t i = 0; i < n; i++)
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++)
      for (int64_t f = e; x[e] && f < indptr[i + 1]; f++) {
        int64_t a = item_at(items, e), b = item_at(items, f);
        total[a < b ? a * size + b : b * size + a] += x[e] * x[f];
      }
}

// Rows (n, size), which are 0 before, with the integers of each at its items.
EXPORT void dense_rows(const void *items, int64_t bytes, const int64_t *units, const int64_t *indptr, int64_t n,
                       int64_t size, double *out) {
  for (int64_t i = 0; i < n; i++, out += size)
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) out[item_at((Indices){items, bytes}, e)] += (double)units[e];
}

// The sum of each row's entries, in their order.
EXPORT void sum_rows(const double *entries, const int64_t *indptr, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double total = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) total += entries[e];
    out[i] = total;
  }
}
