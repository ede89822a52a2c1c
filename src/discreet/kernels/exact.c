// Integers on a grid, and their sums: what `discreet.privacy` does in NumPy, to the last bit, and faster.
//
// Functions that take rows do nothing, and return 0, if an item is not below `size`; -1: there is no memory.
//
// Compiled without contraction of products and sums (-ffp-contract=off), once for all instruction sets: a rounding that
// differs from NumPy's would give other integers. Tests compare each function with its twin on hostile input.

#include "common.h"

// Rows of values as integers on the grid, of L2 norm at most limit: statistics.truncate says how. `largest` is the floor of
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

EXPORT void truncate_rows(const double *values, const int64_t *indptr, int64_t n, Bound bound, int64_t *out) {
  for (int64_t i = 0; i < n; i++)
    truncate_row(values + indptr[i], indptr[i + 1] - indptr[i], bound, -INFINITY, out + indptr[i]);
}

// Whether the items of every row in these blocks rise, and are below size: then each of them counts once.
EXPORT int64_t rising_rows(Rows rows, int64_t *taken, const int64_t *ends, int64_t blocks) {
  int falls = 0;
  EACH_BLOCK(begin, end)
    for (int64_t i = begin; i < end && !falls; i++) {
      const int64_t first = rows.indptr[i], last = rows.indptr[i + 1];
      for (int64_t e = first + 1; e < last; e++) falls |= item_at(rows, e) <= item_at(rows, e - 1);
      falls |= first < last && item_at(rows, last - 1) >= (size_t)rows.size;
    }
  return !falls;
}

// total[item] (k) += x a, for the truncated entries x of rows, of which none is less than `least`, and the truncated
// vector a of the entry: entry p of a row has its row's vector p % each. Without vectors total[item] += x.
EXPORT int64_t add_rows(Rows rows, const double *entries, double least, Bound bound, const double *vectors,
                        int64_t each, int64_t k, Bound vector_bound, int64_t *total) {
  if (!known(rows, 0, rows.n)) return 0;
  int64_t longest = 1;
  for (int64_t i = 0; i < rows.n; i++) {
    int64_t count = rows.indptr[i + 1] - rows.indptr[i];
    longest = count > longest ? count : longest;
  }
  int64_t *x = malloc(sizeof(int64_t) * (longest + each * k)), *a = x + longest;
  if (!x) return -1;
  for (int64_t i = 0; i < rows.n; i++) {
    int64_t first = rows.indptr[i], count = rows.indptr[i + 1] - first;
    truncate_row(entries + first, count, bound, least, x);
    for (int64_t f = 0; f < each; f++)
      truncate_row(vectors + (i * each + f) * k, k, vector_bound, -INFINITY, a + f * k);
    for (int64_t e = 0, at = 0; e < count; e++, at = at + 1 < each ? at + 1 : 0) {
      int64_t *out = total + item_at(rows, first + e) * k;
      if (!each) *out += x[e];
      for (int64_t j = 0; j < k && each; j++) out[j] += x[e] * a[at * k + j];
    }
  }
  free(x);
  return 1;
}

// total (k, k) += the sum of x x^T on and above the diagonal: n rows of `each` vectors x, truncated together.
EXPORT int64_t add_squares(const double *vectors, int64_t n, int64_t each, int64_t k, Bound bound, int64_t *total) {
  int64_t *x = malloc(sizeof(int64_t) * (each * k + 1));
  if (!x) return -1;
  for (int64_t i = 0; i < n; i++, vectors += each * k) {
    truncate_row(vectors, each * k, bound, -INFINITY, x);
    for (int64_t f = 0; f < each * k; f += k)
      for (int64_t a = 0; a < k; a++)
        for (int64_t b = a; b < k; b++) total[a * k + b] += x[f + a] * x[f + b];
  }
  free(x);
  return 1;
}

// total[a][b] += x_a x_b, for each two items a <= b of a row; total has `size` columns.
EXPORT int64_t scatter_gram(Rows rows, const int64_t *x, int64_t *total) {
  if (!known(rows, 0, rows.n)) return 0;
  for (int64_t i = 0; i < rows.n; i++)
    for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++)
      for (int64_t f = e; x[e] && f < rows.indptr[i + 1]; f++) {
        int64_t a = item_at(rows, e), b = item_at(rows, f);
        total[a < b ? a * rows.size + b : b * rows.size + a] += x[e] * x[f];
      }
  return 1;
}

// Rows (n, size), which are 0 before, with the integers of each at its items.
EXPORT int64_t dense_rows(Rows rows, const int64_t *units, double *out) {
  if (!known(rows, 0, rows.n)) return 0;
  for (int64_t i = 0; i < rows.n; i++, out += rows.size)
    for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++) out[item_at(rows, e)] += (double)units[e];
  return 1;
}

// The sum of each row's entries, in their order.
EXPORT void sum_rows(const double *entries, const int64_t *indptr, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double total = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) total += entries[e];
    out[i] = total;
  }
}
