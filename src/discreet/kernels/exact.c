// Integers on a grid, and their sums: the same bits as NumPy code for `discreet.privacy` would give, but faster.
//
// Compiled once for all instruction sets, without fused multiply-add (-ffp-contract=off): a rounding that
// differs from NumPy's could change an integer. Tests compare each function with a NumPy twin on adversarial input.

#include "common.h"

// Truncates values to integers on the grid, of L2 norm at most limit, as `statistics.truncate` says. `largest` is the
// floor of limit squared. Values that are not finite count as zero.
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

// Whether a row's items are strictly increasing and below size, so that each counts once.
static int rising(Rows rows, int64_t i) {
  const int64_t first = rows.indptr[i], last = rows.indptr[i + 1];
  int falls = first < last && item_at(rows, last - 1) >= (size_t)rows.size;
  for (int64_t e = first + 1; e < last; e++) falls |= item_at(rows, e) <= item_at(rows, e - 1);
  return !falls;
}

EXPORT int64_t rising_rows(Rows rows, int64_t *taken, const int64_t *ends, int64_t blocks) {
  int rises = 1;
  EACH_BLOCK(begin, end)
    for (int64_t i = begin; i < end && rises; i++) rises = rising(rows, i);
  return rises;
}

// A sum over rows, in grid units. The x of a row's entries are truncated together, and so is each vector.
//
//     without vectors     total[item] += x
//     with `each` vectors total[item] (k) += x a: entry p of a row is multiplied by its vector a = p % each
//     whole               total (k) += a: one vector for each row, with the bound of x
//     gram, pairs         total (size, size) += x x^T, on and above the diagonal: from dense rows, or entry by entry
//     with squares        squares (k, k) += the same for `each` vectors of k numbers, truncated together
typedef struct {
  int64_t each, k, size, whole, pairs;
  int64_t repeats;  // whether items may repeat; otherwise a row with repeated items adds nothing
  double least;     // lower bound of an x, or of a number of a whole vector
  Bound bound, vector_bound, square_bound;
  int64_t *total, *squares;                                       // NULL if not wanted
  void (*gram)(const double *P, int64_t n, int64_t ld, double *G);  // G += P^T P on and above the diagonal
  const int64_t *place;                                           // positions of items in the sum, increasing, -1 for none; or NULL
  Contribution *of;                                               // NULL if x, vectors and numbers are given
  const void *given;
  int64_t longest, memory;  // the most entries of a row; bytes of scratch memory for `of`
  const double *x, *vectors, *numbers;
} Sum;

// Add up blocks of rows, skipping rows with items that repeat or are not below size.
EXPORT int64_t add_up(Rows rows, int64_t *taken, const int64_t *ends, int64_t blocks, Sum s) {
  if (s.repeats && !known(rows, 0, rows.n)) return 0;
  const int64_t k = s.k, all = s.each * k, ld = s.gram ? (s.size + 15) / 16 * 16 : 0, side = ld * (ld + PART);
  const size_t work = (s.memory + 63) / 64 * 8;
  double *G = MEMORY(double, work + side + 3 * s.longest + 3 * all + 1), *P = G + ld * ld, *memory = G + side;
  double *x = memory + work, *vectors = x + s.longest, *numbers = vectors + all;
  int64_t *items = (int64_t *)(numbers + all), *units = items + s.longest, *a = units + s.longest, filled = 0;
  if (!G) return -1;
  memset(G, 0, sizeof(double) * side);
  EACH_BLOCK(begin, end)
    for (int64_t i = begin; i < end; i++) {
      int64_t n = 0, first = rows.indptr[i], last = rows.indptr[i + 1];
      if (!s.repeats && !rising(rows, i)) continue;
      if (s.of) s.of(s.given, rows, i, memory, x, vectors, numbers);
      for (int64_t e = first; e < last && !s.whole; e++) {
        int64_t item = (int64_t)item_at(rows, e), at = s.place ? s.place[item] : item;
        if (at >= 0) items[n] = at, x[n++] = s.of ? x[e - first] : s.x[e];
      }
      truncate_row(x, n, s.bound, s.least, units);
      if (s.squares) truncate_row(s.of ? numbers : s.numbers + i * all, all, s.square_bound, -INFINITY, a);
      for (int64_t f = 0; f < all && s.squares; f += k)
        for (int64_t p = 0; p < k; p++)
          for (int64_t q = p; q < k; q++) s.squares[p * k + q] += a[f + p] * a[f + q];
      const double *own = s.of ? vectors : s.vectors + i * all;
      if (s.whole) truncate_row(own, k, s.bound, s.least, a);
      for (int64_t j = 0; j < k && s.whole; j++) s.total[j] += a[j];
      if (s.gram) {
        for (int64_t e = 0; e < n; e++) P[filled * ld + items[e]] = (double)units[e];
        if (++filled < PART) continue;
        s.gram(P, PART, ld, G);  // exact: the caller has checked that integers stay below 2^53
        memset(P, 0, sizeof(double) * PART * ld), filled = 0;
      } else if (s.pairs) {
        for (int64_t e = 0, p, q; e < n; e++)
          for (int64_t f = e; units[e] && f < n; f++)
            p = items[e], q = items[f], s.total[p < q ? p * s.size + q : q * s.size + p] += units[e] * units[f];
      } else if (s.total && !s.whole) {
        for (int64_t f = 0; f < all; f += k) truncate_row(own + f, k, s.vector_bound, -INFINITY, a + f);
        for (int64_t e = 0, at = 0; e < n; e++, at = at + k < all ? at + k : 0) {
          int64_t *out = s.total + items[e] * (all ? k : 1);
          if (!all) *out += units[e];
          for (int64_t j = 0; j < k && all; j++) out[j] += units[e] * a[at + j];
        }
      }
    }
  if (filled) s.gram(P, filled, ld, G);
  for (int64_t p = 0; p < s.size && s.gram; p++)
    for (int64_t q = p; q < s.size; q++) s.total[p * s.size + q] += (int64_t)G[p * ld + q];
  free(G);
  return 1;
}

// The sum of each row's entries, in order.
EXPORT void sum_rows(const double *entries, const int64_t *indptr, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double total = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) total += entries[e];
    out[i] = total;
  }
}
