// Functions that compute users' contributions. Sums run over a user's own entries, in order. Compiled like exact.c.

#include "common.h"

// Scale a row's entries to an L2 norm of 1, unless all are 0. Returns their norm before.
static double unit_row(double *x, int64_t n) {
  double squares = 0;
  for (int64_t e = 0; e < n; e++) squares += x[e] * x[e];
  for (int64_t e = 0; e < n && squares > 0; e++) x[e] /= sqrt(squares);
  return sqrt(squares);
}

// The factors of values: with a slope, their `models.grading.Grading`; otherwise the values, or 1 if not `rated`.
typedef struct {
  Scale scale;
  int64_t rated;
  double mean, shrinkage, unit, slope;
} Grades;

// The weights of a row's items: numbers a, by default 1, times the factors of their values, scaled to an L2 norm of 1.
static void weigh(Rows rows, int64_t i, const double *a, Grades g, double *x) {
  const int64_t first = rows.indptr[i], n = rows.indptr[i + 1] - first;
  double own = 0;
  for (int64_t e = 0; e < n; own += x[e++]) x[e] = g.rated ? (value_at(rows, g.scale, first + e) - g.mean) / g.unit : 1;
  own /= (double)n + g.shrinkage;
  for (int64_t e = 0; e < n; e++) {
    if (g.slope > 0) x[e] = fmax(1 + g.slope * (x[e] - own), 0);
    if (a) x[e] *= a[item_at(rows, first + e)];
  }
  unit_row(x, n);
}

// The entries whose items have a place (not -1), renumbered by their places, and the offsets of rows, (n + 1).
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

static double sum_of_values(Rows rows, int64_t i, Scale s) {
  double sum = 0;
  for (int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; e++) sum += value_at(rows, s, e);
  return sum;
}

// x = the weights of items; with a nonnegative `penalty`, times the deviations of values from the row's mean, which is
// shrunk by `penalty` pseudo-ratings of value `mean`.
typedef struct {
  Grades grades;
  const double *a;
  double penalty, mean;
} Weights;

EXPORT void weights(const void *given, Rows rows, int64_t i, void *memory, double *x, double *vectors, double *numbers) {
  const Weights *q = given;
  const int64_t first = rows.indptr[i], n = rows.indptr[i + 1] - first;
  weigh(rows, i, q->a, q->grades, x);
  if (q->penalty < 0) return;
  double own = (sum_of_values(rows, i, q->grades.scale) + q->penalty * q->mean) / ((double)n + q->penalty);
  for (int64_t e = 0; e < n; e++) x[e] *= value_at(rows, q->grades.scale, first + e) - own;
}

// `contributions.own_moments` has the formulas. Magnitudes use the variance's binary exponent, which is exact.
typedef struct {
  Scale scale;
  double reach;
  int64_t magnitudes;
} Moments;

EXPORT void moments(const void *given, Rows rows, int64_t i, void *memory, double *none, double *row, double *numbers) {
  const Moments *q = given;
  const int64_t first = rows.indptr[i], n = rows.indptr[i + 1] - first;
  double count = n ? (double)n : 1, own = sum_of_values(rows, i, q->scale) / count, mean = own / q->reach, squares = 0;
  for (int64_t e = 0; e < n; e++) {
    double off = value_at(rows, q->scale, first + e) - own;
    squares += off * off;
  }
  int exponent = 0;
  double spread = squares / count / (q->reach * q->reach), half = sqrt(0.5), fraction = frexp(spread, &exponent);
  int64_t last = q->magnitudes - 1, place = exponent > 0 ? 0 : -(int64_t)exponent / 2;
  memset(row + 5, 0, sizeof(double) * q->magnitudes);
  row[0] = (1 + mean) * half, row[1] = (1 - mean) * half, row[2] = spread, row[3] = 1 - 1 / count, row[4] = mean * mean;
  if (fraction > 0) row[5 + (place < last ? place : last)] = 1;
}

// Directions of a row: for each fold, the sum of weights (by the numbers `chosen`) times loadings (d) over the entries
// of the other folds, scaled to length 1, or 0 if it is 0; entry p is in fold p % folds. And x: the weights by the
// numbers a, multiplied by the lengths of their folds' sums if `by_length`; scaled to an L2 norm of 1.
typedef struct {
  Grades grades;
  const double *chosen, *a, *loadings;
  int64_t by_length, d, folds;
} Standing;

EXPORT void standing(const void *given, Rows rows, int64_t i, void *memory, double *x, double *out, double *numbers) {
  const Standing *q = given;
  const int64_t first = rows.indptr[i], n = rows.indptr[i + 1] - first, d = q->d, folds = q->folds;
  double *lengths = memory;
  weigh(rows, i, q->chosen, q->grades, x), memset(out, 0, sizeof(double) * folds * d);
  for (int64_t e = 0; e < n; e++) {
    const double *own = q->loadings + item_at(rows, first + e) * d;
    double *sum = out + e % folds * d;
    for (int64_t j = 0; j < d && x[e] != 0; j++) sum[j] += x[e] * own[j];
  }
  for (int64_t j = 0; j < d; j++) {
    double all = 0;
    for (int64_t f = 0; f < folds; f++) all += out[f * d + j];
    for (int64_t f = 0; f < folds; f++) out[f * d + j] = all - out[f * d + j];
  }
  for (int64_t f = 0; f < folds; f++) lengths[f] = unit_row(out + f * d, d);
  weigh(rows, i, q->a, q->grades, x);
  for (int64_t e = 0; e < n && q->by_length; e++) x[e] *= lengths[e % folds];
  if (q->by_length) unit_row(x, n);
}

// The contributions of all rows, as arrays. Returns 0 if an item is not below size.
EXPORT int64_t contributions(Rows rows, Contribution *of, const void *given, int64_t bytes, int64_t size, double *x,
                             double *vectors, double *numbers) {
  if (!known(rows, 0, rows.n)) return 0;
  void *memory = MEMORY(char, bytes + 1);
  if (!memory) return -1;
  for (int64_t i = 0; i < rows.n; i++)
    of(given, rows, i, memory, x + rows.indptr[i], vectors + i * size, numbers + i * size);
  free(memory);
  return 1;
}
