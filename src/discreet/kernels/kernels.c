// Computations for each user or each item: ridge regressions, conjugate gradients, the best items.
//
// This file is compiled once for each instruction set (-DSET=...), and `kernels/__init__.py` calls the best version
// that the processor supports. Do not compile it with -ffast-math: the order of additions is part of the result.

#include "common.h"

#define JOIN_(a, b, c) a##_##b##_##c
#define JOIN(a, b, c) JOIN_(a, b, c)

// Bytes of a vector register, and how many rows and vectors of a product are held in registers at a time.
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE = 8, USERS = 8, PANEL_VECTORS = 2 };
#elif defined(__AVX__)
enum { VECTOR = 32, TILE = 4, USERS = 4, PANEL_VECTORS = 2 };
#else
enum { VECTOR = 16, TILE = 4, USERS = 4, PANEL_VECTORS = 2 };
#endif

// Rows of tables are padded to a multiple of PAD; up to GRAM_PAYS columns, conjugate gradients use Gram matrices
enum { PAD = 16, GRAM_PAYS = 32 };

// For the type of number that rows.h is included for
#define vec NAME(vector)
#define WIDTH ((int)(VECTOR / sizeof(REAL)))
#define LOAD(p) (*(const vec *)(p))
#define STORE(p, v) (*(vec *)(p) = (v))

// Add L^T P to, or subtract it from, TILE rows of G from `row` on, in `vectors` vectors of columns from `col` on.
#define ADD_TILE(vectors)                                                                          \
  {                                                                                                \
    vec acc[TILE][vectors];                                                                        \
    for (int i = 0; i < TILE; i++)                                                                 \
      for (int v = 0; v < vectors; v++) acc[i][v] = (vec){0};                                      \
    for (int t = 0; t < n; t++) {                                                                  \
      const REAL *left = L + (size_t)t * ld + row, *right = P + (size_t)t * ld + col;              \
      for (int i = 0; i < TILE; i++)                                                               \
        for (int v = 0; v < vectors; v++) acc[i][v] += LOAD(right + v * WIDTH) * left[i];          \
    }                                                                                              \
    for (int i = 0; i < TILE; i++)                                                                 \
      for (int v = 0; v < vectors; v++) {                                                          \
        REAL *g = G + (size_t)(row + i) * ld + col + v * WIDTH;                                    \
        STORE(g, minus ? LOAD(g) - acc[i][v] : LOAD(g) + acc[i][v]);                               \
      }                                                                                            \
  }

#define REAL float
#define NAME(name) JOIN(name, f32, SET)
#define SQRT sqrtf
#define EPSILON 1.1920929e-07f
#include "rows.h"
#undef REAL
#undef NAME
#undef SQRT
#undef EPSILON

#define REAL double
#define NAME(name) JOIN(name, f64, SET)
#define SQRT sqrt
#define EPSILON 2.220446049250313e-16
#include "rows.h"

// The arguments of `kernels.item_posteriors`; tests/kernels/reference.py has the formulas.
typedef struct {
  const double *first, *spread, *scale, *root;         // priors by item; factors of first, and of both sides of spread
  const double *sizes, *own, *precision, *information;
  const double *moves, *weights, *fresh, *mean, *gap;  // of a step; NULL if there is none, or no gap yet
  double error;                                        // squared
  int64_t k;
  double *out_precision, *out_information, *out_gap, *out_mean, *out_covariance;
} ItemPosteriors;

#define EACH(a) for (int64_t a = 0; a < k; a++)

// Solve A X = B, given as k rows (A, B), by elimination with partial pivoting, in place of B. Returns 0 if A is singular.
static int eliminate(double *rows, int64_t k, int64_t width) {
  EACH(p) {
    double *own = rows + p * width, *pivot = own;
    for (double *row = own; row < rows + k * width; row += width)
      if (fabs(row[p]) > fabs(pivot[p])) pivot = row;
    if (!(fabs(pivot[p]) > 0)) return 0;
    for (int64_t j = p; j < width && pivot != own; j++) {
      double other = pivot[j];
      pivot[j] = own[j], own[j] = other;
    }
    for (double *row = own + width; row < rows + k * width; row += width) {
      double f = row[p] / own[p];
      for (int64_t j = p + 1; j < width; j++) row[j] -= f * own[j];
    }
  }
  for (int64_t p = k - 1; p >= 0; p--) {
    double *own = rows + p * width;
    for (int64_t i = p + 1; i < k; i++)
      for (int64_t j = k; j < width; j++) own[j] -= own[i] * rows[i * width + j];
    for (int64_t j = k; j < width; j++) own[j] /= own[p];
  }
  return 1;
}

// out += A B for A with rows `next` and entries `step` apart, and B and out with rows `from` and `to` apart.
static void add_product(const double *A, int64_t next, int64_t step, const double *B, int64_t from, int64_t k, double *out,
                        int64_t to) {
  EACH(a) EACH(p) EACH(b) out[a * to + b] += A[a * next + p * step] * B[p * from + b];
}

// out = the symmetric part of a matrix with rows `next` apart.
static void symmetric(const double *matrix, int64_t next, int64_t k, double *out) {
  EACH(a) EACH(b) out[a * k + b] = (matrix[a * next + b] + matrix[b * next + a]) / 2;
}

// The posteriors of blocks of items. Returns 0 if a matrix is singular.
EXPORT int64_t NAME(item_posteriors)(ItemPosteriors q, int64_t *taken, const int64_t *ends, int64_t blocks) {
  const int64_t k = q.k, size = k * k, width = 2 * k + 1;
  double *memory = MEMORY(double, (size_t)(k * width + 4 * size + 3 * k)), *rows = memory, *wide = rows + k * width;
  double *C = wide + size, *T = C + size, *found = T + size, *first = found + size, *target = first + k;
  double *off = target + k, *R = rows + k;
  int sound = 1;
  EACH_BLOCK(begin, end)
    for (int64_t i = begin; i < end && sound; i++) {
      const double *spread = q.spread + i * size, *gap = q.gap ? q.gap + i * size : wide;
      double *P = q.out_precision + i * size, *known = q.out_information + i * k, *mean = q.out_mean + i * k;
      memcpy(P, q.precision + i * size, sizeof(double) * size);
      memcpy(known, q.information + i * k, sizeof(double) * k);
      EACH(a) {
        first[a] = q.first[i * k + a] * q.scale[a];
        EACH(b) wide[a * k + b] = spread[a * k + b] * q.root[a] * q.root[b] + q.sizes[i] * q.own[a * k + b];
      }
      if (q.moves) {  // the precision of the step, and what it adds to the information
        EACH(a) {
          target[a] = q.mean[i * k + a] + q.moves[i * k + a], rows[a * width + 2 * k] = 0;
          EACH(b) rows[a * width + b] = q.weights[i] * q.fresh[a * k + b] + q.error * gap[a * k + b];
          EACH(b) rows[a * width + k + b] = a == b;
        }
        sound &= eliminate(rows, k, width);
        symmetric(R, width, k, found);
        EACH(a) EACH(b) P[a * k + b] += found[a * k + b], known[a] += found[a * k + b] * target[b];
      }
      EACH(a) {  // phi: (I + wide P) (C, its mean - first) = (wide, wide (known - P first))
        off[a] = known[a], rows[a * width + 2 * k] = 0;
        EACH(b) off[a] -= P[a * k + b] * first[b], rows[a * width + b] = a == b;
        memcpy(rows + a * width + k, wide + a * k, sizeof(double) * k);
      }
      EACH(a) EACH(b) rows[a * width + 2 * k] += wide[a * k + b] * off[b];
      add_product(wide, k, 1, P, k, k, rows, width);
      sound &= eliminate(rows, k, width);
      EACH(a) off[a] = rows[a * width + 2 * k];
      symmetric(R, width, k, C);
      EACH(a) {  // theta, by its regression R^T on phi: wide R = spread; wide - noise might be nothing but rounding
        rows[a * width + 2 * k] = 0;
        EACH(b) {
          T[a * k + b] = q.sizes[i] * q.own[a * k + b], rows[a * width + b] = wide[a * k + b];
          rows[a * width + k + b] = spread[a * k + b] * q.root[a] * q.root[b];
        }
      }
      sound &= eliminate(rows, k, width);
      add_product(C, k, 1, R, width, k, T, k);
      memset(wide, 0, sizeof(double) * size);
      add_product(R, 1, width, T, k, k, wide, k);
      symmetric(wide, k, k, q.out_covariance + i * size);
      EACH(a) {
        mean[a] = first[a];
        EACH(b) mean[a] += R[b * width + a] * off[b];
      }
      EACH(a) off[a] += first[a] - mean[a];
      EACH(a) EACH(b) q.out_gap[i * size + a * k + b] = C[a * k + b] + off[a] * off[b];
    }
  free(memory);
  return sound;
}
