// Integers on a grid, and their sums: what `discreet.privacy` does in NumPy, to the last bit, and faster.
//
// Compiled without contraction of products and sums (-ffp-contract=off), once for all instruction sets: a rounding that
// differs from NumPy's would give other integers. Tests compare each function with its twin on hostile input.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

// Rows of values as integers on the grid, of L2 norm at most limit: lattice.truncate says how. `largest` is the floor of
// limit squared. What is not finite counts as zero.
EXPORT void truncate_rows(const double *values, const int64_t *indptr, int64_t begin, int64_t end, double step,
                          double limit, int64_t largest, int64_t *out) {
  for (int64_t i = begin; i < end; i++) {
    double squares = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
      double units = isfinite(values[e]) ? values[e] / step : 0.0;
      squares += units * units;
    }
    double length = sqrt(squares), factor = limit / (length > limit ? length : limit), shorten[3] = {1, 1 - 0x1p-40, 0};
    for (int round = 0; round < 3; round++) {
      int64_t total = 0;
      for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
        double units = isfinite(values[e]) ? values[e] / step : 0.0, scaled = units * factor * shorten[round];
        out[e] = isfinite(scaled) ? (int64_t)scaled : 0;
        total += out[e] * out[e];
      }
      if (total <= largest) break;
    }
  }
}

// Whether all of some items are below size; and whether every row's items rise, too: then each of them counts once.
#define ITEMS(type)                                                                                         \
  static int64_t below_##type(const type *items, int64_t begin, int64_t end, int64_t size) {                \
    type most = 0;                                                                                          \
    for (int64_t e = begin; e < end; e++) most = items[e] > most ? items[e] : most;                         \
    return begin >= end || most < size;                                                                     \
  }                                                                                                         \
  static int64_t rising_##type(const type *items, const int64_t *indptr, int64_t begin, int64_t end) {      \
    for (int64_t i = begin; i < end; i++) {                                                                 \
      int falls = 0;                                                                                        \
      for (int64_t e = indptr[i] + 1; e < indptr[i + 1]; e++) falls |= items[e] <= items[e - 1];            \
      if (falls) return 0;                                                                                  \
    }                                                                                                       \
    return 1;                                                                                               \
  }
ITEMS(uint8_t)
ITEMS(uint16_t)
ITEMS(uint32_t)

// Items are of 1, 2 or 4 bytes.
#define OF_ITEMS(name, ...)                            \
  (bytes == 1 ? name##_uint8_t(items, __VA_ARGS__)    \
   : bytes == 2 ? name##_uint16_t(items, __VA_ARGS__) \
                : name##_uint32_t(items, __VA_ARGS__))

EXPORT int64_t below(const void *items, int64_t bytes, int64_t begin, int64_t end, int64_t size) {
  return OF_ITEMS(below, begin, end, size);
}

EXPORT int64_t rising_rows(const void *items, int64_t bytes, const int64_t *indptr, int64_t begin, int64_t end,
                           int64_t size) {
  return OF_ITEMS(below, indptr[begin], indptr[end], size) && OF_ITEMS(rising, indptr, begin, end);
}

// total[item] += units, of integers.
EXPORT void scatter_units(const uint32_t *items, const int64_t *units, int64_t n, int64_t *total) {
  for (int64_t e = 0; e < n; e++) total[items[e]] += units[e];
}

// total[item] (k) += x a, for the vector a of the entry: entry p of a row has its row's vector p % each.
EXPORT void scatter_outer(const uint32_t *items, const int64_t *x, const int64_t *vectors, const int64_t *indptr,
                          int64_t begin, int64_t end, int64_t each, int64_t k, int64_t *total) {
  for (int64_t i = begin; i < end; i++)
    for (int64_t e = indptr[i], at = 0; e < indptr[i + 1]; e++, at = at + 1 < each ? at + 1 : 0) {
      const int64_t *a = vectors + (i * each + at) * k;
      int64_t *out = total + items[e] * k, own = x[e];
      for (int64_t j = 0; j < k; j++) out[j] += own * a[j];
    }
}

// total[a][b] += x_a x_b, for each two items a <= b of a row; total has `size` columns.
EXPORT void scatter_gram(const uint32_t *items, const int64_t *x, const int64_t *indptr, int64_t n, int64_t size,
                         int64_t *total) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++)
      for (int64_t f = e; x[e] && f < indptr[i + 1]; f++) {
        int64_t a = items[e], b = items[f];
        total[a < b ? a * size + b : b * size + a] += x[e] * x[f];
      }
}

// The sum of each row's entries, in their order.
EXPORT void sum_rows(const double *entries, const int64_t *indptr, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    double total = 0;
    for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) total += entries[e];
    out[i] = total;
  }
}
