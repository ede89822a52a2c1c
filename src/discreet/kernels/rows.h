// Kernels for one type of number; kernels.c includes this file for float and for double.
//
// A table has one vector for each item (or user): rows of `ld` numbers, a multiple of PAD, of which the first k count
// and the others are 0. Sparse rows are in CSR form: row i's entries are indptr[i] to indptr[i + 1] of indices and
// values. The results of a row depend only on that row and on the tables, by the same operations in the same order
// whatever other rows there are: scratch memory is overwritten for each row, and sums run over the row's own entries.

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR)));

static inline REAL NAME(sum)(vec v) {
  REAL part[WIDTH];
  memcpy(part, &v, sizeof v);
  for (int n = WIDTH / 2; n; n /= 2)
    for (int i = 0; i < n; i++) part[i] += part[i + n];
  return part[0];
}

static inline REAL NAME(dot)(const REAL *a, const REAL *b, int n) {
  vec even = {0}, odd = {0};
  int j = 0;
  for (; j + 2 * WIDTH <= n; j += 2 * WIDTH) {
    even += LOAD(a + j) * LOAD(b + j);
    odd += LOAD(a + j + WIDTH) * LOAD(b + j + WIDTH);
  }
  if (j < n) even += LOAD(a + j) * LOAD(b + j);
  return NAME(sum)(even + odd);
}

static inline void NAME(axpy)(REAL f, const REAL *x, REAL *y, int n) {
  for (int j = 0; j < n; j += WIDTH) STORE(y + j, LOAD(y + j) + f * LOAD(x + j));
}

// Add L^T P (n rows) to G, or subtract it: the upper triangle and part of the lower, from row `first` on.
static inline __attribute__((always_inline)) void NAME(add_products)(const REAL *L, const REAL *P, int n, int ld,
                                                                     int first, int minus, REAL *G) {
  for (int row = first; row < ld; row += TILE) {
    int col = row - row % WIDTH;
    if ((ld - col) / WIDTH % 2) {
      ADD_TILE(1)
      col += WIDTH;
    }
    for (; col < ld; col += 2 * WIDTH) ADD_TILE(2)
  }
}

EXPORT void NAME(add_gram)(const REAL *P, int64_t n, int64_t ld, REAL *G) {
  NAME(add_products)(P, P, (int)n, (int)ld, 0, 0, G);
}

// Solve A y = x in place, from the upper triangle of A, which becomes its Cholesky factor. Returns 1 if a pivot is no
// more than `rounding` of its diagonal. The diagonal beyond k is set to 1.
static int NAME(solve)(REAL *A, int k, int ld, REAL rounding, REAL *x) {
  REAL least[ld];
  for (int i = 0; i < ld; i++) {
    if (i >= k) A[(size_t)i * ld + i] = 1;
    least[i] = rounding * A[(size_t)i * ld + i];
  }
  for (int top = 0; top < k; top += TILE) {
    for (int i = top; i < top + TILE; i++) {
      REAL *row = A + (size_t)i * ld;
      int from = i - i % WIDTH;
      for (int p = top; p < i; p++) {
        const REAL *above = A + (size_t)p * ld;
        NAME(axpy)(-above[i], above + from, row + from, ld - from);
      }
      if (!(row[i] > least[i])) return 1;
      REAL scale = 1 / SQRT(row[i]);
      for (int j = from; j < ld; j += WIDTH) STORE(row + j, LOAD(row + j) * scale);
      for (int j = from; j < i; j++) row[j] = 0;
    }
    if (top + TILE < k) NAME(add_products)(A + (size_t)top * ld, A + (size_t)top * ld, TILE, ld, top + TILE, 1, A);
  }
  for (int i = 0; i < k; i++) {  // a vector may begin before the diagonal, where the factor is zero
    const REAL *row = A + (size_t)i * ld;
    REAL own = x[i] / row[i];
    int from = i - i % WIDTH;
    NAME(axpy)(-own, row + from, x + from, ld - from);
    x[i] = own;
  }
  for (int i = k - 1; i >= 0; i--) {
    const REAL *row = A + (size_t)i * ld;
    REAL own = x[i];
    int from = i - i % WIDTH;
    x[i] = 0;
    x[i] = (own - NAME(dot)(row + from, x + from, ld - from)) / row[i];
  }
  return 0;
}

// The regressions of many rows; `kernels.ridge` says what their offsets and vectors minimize.
typedef struct {
  Rows rows;
  const REAL *values, *table, *base, *prior;  // values by entry, the others by item; base and prior may be NULL
  const REAL *gram, *scale;                   // gram (ld, ld) or NULL; scale by row
  REAL offset_penalty, prior_count;           // a negative penalty: there is no offset
  int64_t k, ld;
  REAL *offsets, *vectors, *residuals;  // results: (rows), (rows, ld), by entry or NULL
} NAME(Ridge);

// A row's entries, gathered PART at a time.
typedef struct {
  REAL *P, *t;           // vectors, and targets
  REAL *b, *sums, *c;    // sums over the row of P t and of P; the prior mean
  REAL count, targets;   // how many entries the row has, and the sum of t
} NAME(Gathered);

static inline REAL NAME(target)(const NAME(Ridge) * r, int64_t e) {
  return r->values[e] - (r->base ? r->base[item_at(r->rows, e)] : 0);
}

static void NAME(prior_mean)(const NAME(Ridge) * r, int64_t begin, int64_t end, REAL *c) {
  int ld = (int)r->ld;
  memset(c, 0, sizeof(REAL) * ld);
  if (!r->prior || begin == end) return;
  for (int64_t e = begin; e < end; e++) NAME(axpy)(1, r->prior + item_at(r->rows, e) * ld, c, ld);
  for (int j = 0; j < ld; j++) c[j] /= (REAL)(end - begin) + r->prior_count;
}

static void NAME(gather)(const NAME(Ridge) * r, int64_t begin, int n, NAME(Gathered) * g) {
  const int ld = (int)r->ld, offset = r->offset_penalty >= 0;
  for (int e = 0; e < n; e++) {
    const REAL *x = r->table + item_at(r->rows, begin + e) * ld;
    if (e + 8 < n) __builtin_prefetch(r->table + item_at(r->rows, begin + e + 8) * ld);
    REAL *p = g->P + (size_t)e * ld, t = NAME(target)(r, begin + e);
    if (r->prior) t -= NAME(dot)(x, g->c, ld);
    for (int j = 0; j < ld; j += WIDTH) {
      vec own = LOAD(x + j);
      STORE(p + j, own);
      STORE(g->b + j, LOAD(g->b + j) + t * own);
      if (offset) STORE(g->sums + j, LOAD(g->sums + j) + own);
    }
    g->t[e] = t, g->targets += t;
  }
}

// Gather a whole row, and add the Gram matrix of its vectors to the upper triangle of A.
static void NAME(row_gram)(const NAME(Ridge) * r, int64_t i, NAME(Gathered) * g, REAL *A) {
  for (int64_t at = r->rows.indptr[i], end = r->rows.indptr[i + 1]; at < end; at += PART) {
    int n = end - at < PART ? (int)(end - at) : PART;
    NAME(gather)(r, at, n, g);
    NAME(add_gram)(g->P, n, (int)r->ld, A);
  }
}

// Solve the normal equations of the vector, after the offset has been eliminated.
static int NAME(primal)(const NAME(Ridge) * r, int64_t i, NAME(Gathered) * g, REAL *A, REAL *z, REAL *a) {
  const int k = (int)r->k, ld = (int)r->ld;
  if (r->gram)
    memcpy(A, r->gram, sizeof(REAL) * ld * ld);
  else
    memset(A, 0, sizeof(REAL) * ld * ld);
  NAME(row_gram)(r, i, g, A);
  memcpy(z, g->b, sizeof(REAL) * ld);
  REAL count = g->count + r->offset_penalty;
  if (r->offset_penalty >= 0) {
    for (int row = 0; row < k; row++) NAME(axpy)(-g->sums[row] / count, g->sums, A + (size_t)row * ld, ld);
    NAME(axpy)(-g->targets / count, g->sums, z, ld);
  }
  for (int j = 0; j < k; j++) A[(size_t)j * ld + j] += r->scale[i];
  if (NAME(solve)(A, k, ld, EPSILON * k, z)) return 1;
  *a = r->offset_penalty >= 0 ? (g->targets - NAME(dot)(g->sums, z, ld)) / count : 0;
  return 0;
}

// Solve a system as large as the row has entries: z = X^T q with (X X^T + scale (I + 1 1^T / offset_penalty)) q = t.
static int NAME(dual)(const NAME(Ridge) * r, int64_t i, NAME(Gathered) * g, REAL *A, REAL *T, REAL *z, REAL *a) {
  const int k = (int)r->k, ld = (int)r->ld, n = (int)g->count, ln = (n + PAD - 1) / PAD * PAD;
  REAL scale = r->scale[i], ratio = r->offset_penalty > 0 ? scale / r->offset_penalty : 0;
  NAME(gather)(r, r->rows.indptr[i], n, g);
  for (int j = 0; j < k; j++)
    for (int e = 0; e < ln; e++) T[(size_t)j * ln + e] = e < n ? g->P[(size_t)e * ld + j] : 0;
  memset(A, 0, sizeof(REAL) * ln * ln);
  NAME(add_gram)(T, k, ln, A);
  for (int e = 0; e < n; e++) {
    for (int f = 0; f < n; f++) A[(size_t)e * ln + f] += ratio;
    A[(size_t)e * ln + e] += scale;
  }
  for (int e = n; e < ln; e++) g->t[e] = 0;
  if (NAME(solve)(A, n, ln, EPSILON * n, g->t)) return 1;
  memset(z, 0, sizeof(REAL) * ld);
  *a = 0;
  for (int e = 0; e < n; e++) {
    NAME(axpy)(g->t[e], g->P + (size_t)e * ld, z, ld);
    *a += ratio * g->t[e];
  }
  return 0;
}

// Add f x to out over the entries of a row, and return the sum of unit f: f is x . p + unit pa or, for `rest`, the
// residual of the target. The vectors are not copied: after the first pass over a row they are cached.
static REAL NAME(pass)(const NAME(Ridge) * r, int64_t i, int rest, REAL unit, REAL pa, const REAL *p, REAL *out) {
  const int ld = (int)r->ld;
  const int64_t end = r->rows.indptr[i + 1];
  REAL first = 0;
  for (int64_t at = r->rows.indptr[i]; at < end; at += 4) {  // four entries share the loads of p and out
    const int n = end - at < 4 ? (int)(end - at) : 4;
    const REAL *x[4];
    vec products[4] = {{0}, {0}, {0}, {0}};
    REAL own[4] = {0, 0, 0, 0};
    for (int f = 0; f < 4; f++) x[f] = r->table + item_at(r->rows, at + (f < n ? f : 0)) * ld;
    for (int f = 0; f < 4 && at + 8 + f < end; f++) {
      const char *ahead = (const char *)(r->table + item_at(r->rows, at + 8 + f) * ld);
      for (size_t line = 0; line < sizeof(REAL) * ld; line += 128) __builtin_prefetch(ahead + line);
    }
    for (int j = 0; j < ld; j += WIDTH) {
      vec own_p = LOAD(p + j);
      for (int f = 0; f < 4; f++) products[f] += LOAD(x[f] + j) * own_p;
    }
    for (int f = 0; f < n; f++) {
      REAL found = NAME(sum)(products[f]) + unit * pa;
      own[f] = rest ? NAME(target)(r, at + f) - found : found;
      first += unit * own[f];
    }
    for (int j = 0; j < ld; j += WIDTH) {
      vec total = LOAD(out + j);
      for (int f = 0; f < 4; f++) total += own[f] * LOAD(x[f] + j);
      STORE(out + j, total);
    }
  }
  return first;
}

// out += sign * (the penalty matrix of a row's system) * p.
static void NAME(penalized)(const NAME(Ridge) * r, int64_t i, REAL sign, const REAL *p, REAL *out) {
  NAME(axpy)(sign * r->scale[i], p, out, (int)r->ld);
  if (r->gram)
    for (int j = 0; j < (int)r->k; j++) NAME(axpy)(sign * p[j], r->gram + (size_t)j * r->ld, out, (int)r->ld);
}

// The same as `pass` without `rest`, from the row's Gram matrix A: faster for few columns.
static REAL NAME(by_gram)(const NAME(Ridge) * r, const NAME(Gathered) * g, const REAL *A, REAL unit, REAL pa,
                          const REAL *p, REAL *out) {
  const int ld = (int)r->ld;
  for (int j = 0; j < (int)r->k; j++) NAME(axpy)(p[j], A + (size_t)j * ld, out, ld);
  NAME(axpy)(unit * pa, g->sums, out, ld);
  return unit * (unit * g->count * pa + NAME(dot)(g->sums, p, ld));
}

// Conjugate gradients, starting from z and a. The offset is scaled by `unit`, so that it has the same penalty as z.
static void NAME(conjugate)(const NAME(Ridge) * r, int64_t i, NAME(Gathered) * g, REAL *A, REAL *scratch, int steps,
                            REAL *z, REAL *a) {
  const int ld = (int)r->ld, few = r->k <= GRAM_PAYS;
  REAL *left = scratch, *p = scratch + ld, *image = scratch + 2 * ld;
  REAL unit = r->offset_penalty > 0 ? SQRT(r->scale[i] / r->offset_penalty) : 0, za = unit > 0 ? *a / unit : 0;
  REAL left_a = -r->scale[i] * za;
  memset(left, 0, sizeof(REAL) * ld);
  if (few) {
    memset(A, 0, sizeof(REAL) * ld * ld);
    NAME(row_gram)(r, i, g, A);
    for (int row = 1; row < (int)r->k; row++)
      for (int col = 0; col < row; col++) A[(size_t)row * ld + col] = A[(size_t)col * ld + row];
    left_a -= NAME(by_gram)(r, g, A, unit, za, z, left) - unit * g->targets;
    for (int j = 0; j < ld; j += WIDTH) STORE(left + j, LOAD(g->b + j) - LOAD(left + j));
  } else {
    for (int j = 0; j < ld; j += WIDTH) STORE(p + j, LOAD(z + j) + LOAD(g->c + j));
    left_a += NAME(pass)(r, i, 1, unit, za, p, left);
  }
  NAME(penalized)(r, i, -1, z, left);
  memcpy(p, left, sizeof(REAL) * ld);
  REAL pa = left_a, squared = NAME(dot)(left, left, ld) + left_a * left_a, least = EPSILON * EPSILON * squared;
  for (int step = 0; step < steps && squared > least; step++) {  // the remaining residual is rounding error
    memset(image, 0, sizeof(REAL) * ld);
    REAL image_a = r->scale[i] * pa;
    image_a += few ? NAME(by_gram)(r, g, A, unit, pa, p, image) : NAME(pass)(r, i, 0, unit, pa, p, image);
    NAME(penalized)(r, i, 1, p, image);
    REAL along = NAME(dot)(p, image, ld) + pa * image_a;
    if (!(along > 0)) break;
    REAL f = squared / along, before = squared;
    NAME(axpy)(f, p, z, ld);
    NAME(axpy)(-f, image, left, ld);
    za += f * pa, left_a -= f * image_a;
    squared = NAME(dot)(left, left, ld) + left_a * left_a;
    REAL again = squared / before;
    for (int j = 0; j < ld; j += WIDTH) STORE(p + j, LOAD(left + j) + again * LOAD(p + j));
    pa = left_a + again * pa;
  }
  *a = unit * za;
}

// Solve blocks of rows: exactly if steps is 0, otherwise by that many steps of conjugate gradients that start from the
// given offsets and vectors. failed[i] is set where a system is numerically singular.
EXPORT int64_t NAME(ridge)(NAME(Ridge) r, int64_t *taken, const int64_t *ends, int64_t blocks, int64_t steps,
                           uint8_t *failed) {
  const int k = (int)r.k, ld = (int)r.ld, most = ld > PART ? ld : PART;
  REAL *memory = MEMORY(REAL, (size_t)(most + 2 * ld + 8) * ld + (size_t)most);
  REAL *A = memory, *T = A + (size_t)ld * ld, *z = T + (size_t)ld * ld, *scratch = z + ld;
  NAME(Gathered) g = {.b = scratch + 3 * ld, .sums = scratch + 4 * ld, .c = scratch + 5 * ld, .P = scratch + 7 * ld};
  g.t = g.P + (size_t)most * ld;
  int sound = 1;
  EACH_BLOCK(begin, end) {
    if (!(sound = known(r.rows, begin, end))) break;
    for (int64_t i = begin; i < end; i++) {
      int64_t first = r.rows.indptr[i], last = r.rows.indptr[i + 1], n = last - first;
      REAL a = steps ? r.offsets[i] : 0, *out = r.vectors + (size_t)i * ld;
      memset(g.b, 0, sizeof(REAL) * 2 * ld);
      g.count = (REAL)n, g.targets = 0;
      NAME(prior_mean)(&r, first, last, g.c);
      if (n == 0) {
        a = 0;
        memset(z, 0, sizeof(REAL) * ld);
      } else if (steps) {
        for (int j = 0; j < ld; j++) z[j] = out[j] - g.c[j];
        NAME(conjugate)(&r, i, &g, A, scratch, (int)steps, z, &a);
      } else if (!r.gram && k > 48 && 2 * n <= k && r.scale[i] > 0 && r.offset_penalty != 0) {
        failed[i] = NAME(dual)(&r, i, &g, A, T, z, &a);
      } else {
        failed[i] = NAME(primal)(&r, i, &g, A, z, &a);
      }
      for (int j = 0; j < ld; j++) out[j] = z[j] + g.c[j];
      r.offsets[i] = a;
      for (int64_t e = first; e < last && r.residuals; e++)
        r.residuals[e] = NAME(target)(&r, e) - a - NAME(dot)(r.table + item_at(r.rows, e) * ld, out, ld);
    }
  }
  free(memory);
  return sound;
}

// For each fold of a row, solve (X^T X + D) z = X^T t + D c over the entries outside the fold, D = diag(penalty). The
// prior mean c is that of the same entries: one of all entries would reveal which are left out. The penalty makes every
// system positive definite; where rounding undoes that, z is 0, so that nothing fails because of the data.
static void NAME(fold_out)(const NAME(Ridge) * r, const REAL *penalty, int folds, int64_t i, REAL *memory,
                           REAL *vectors) {
  const int k = (int)r->k, ld = (int)r->ld, square = ld * ld, size = square + 2 * ld;  // sums: Gram matrix, b and c
  REAL *whole = memory + folds * size, *A = whole + size, *b = A + square, *c = b + ld, *P = A + size;
  int64_t first = r->rows.indptr[i], last = r->rows.indptr[i + 1];
  memset(memory, 0, sizeof(REAL) * (folds + 1) * size);
  for (int f = 0; f < folds; f++) {
    REAL *own = memory + f * size;
    int n = 0;
    for (int64_t e = first + f; e < last; e += folds) {
      size_t item = item_at(r->rows, e);
      const REAL *x = r->table + item * ld;
      memcpy(P + (size_t)n * ld, x, sizeof(REAL) * ld);
      NAME(axpy)(NAME(target)(r, e), x, own + square, ld);
      NAME(axpy)(1, r->prior + item * ld, own + square + ld, ld);
      if (++n == PART || e + folds >= last) NAME(add_gram)(P, n, ld, own), n = 0;
    }
    NAME(axpy)(1, own, whole, size);
  }
  for (int f = 0; f < folds; f++) {
    REAL *z = vectors + (size_t)f * ld, *own = memory + f * size;
    int64_t n = last - first, others = n - (n - f + folds - 1) / folds;  // entries outside the fold
    REAL count = (REAL)others + r->prior_count;
    if (!(count > 0)) count = 1;
    for (int j = 0; j < size; j += WIDTH) STORE(A + j, LOAD(whole + j) - LOAD(own + j));
    for (int j = 0; j < ld; j++) z[j] = j < k ? b[j] + penalty[j] * c[j] / count : 0;
    for (int j = 0; j < k; j++) A[(size_t)j * ld + j] += penalty[j];
    if (NAME(solve)(A, k, ld, 0, z)) memset(z, 0, sizeof(REAL) * ld);
  }
}

// The arguments of `item_step`; `als.contributions.item_step` has the formulas.
typedef struct {
  Scale scale;
  const REAL *table, *base, *prior, *penalty;  // table, base and prior by item; penalty by coordinate
  const double *a;                             // by item
  double prior_count, bias_weight, clip, lift, shrink, offset;
  int64_t k, ld, folds;
} NAME(ItemStep);

EXPORT void NAME(item_step)(const void *given, Rows rows, int64_t i, void *memory, double *x, double *vectors,
                            double *numbers) {
  const NAME(ItemStep) *q = given;
  const int k = (int)q->k, ld = (int)q->ld, folds = (int)q->folds;
  const int64_t first = rows.indptr[i], count = rows.indptr[i + 1] - first;
  REAL *z = (REAL *)memory + (size_t)(folds + 2) * (ld + 2) * ld + (size_t)PART * ld, *values = z + folds * ld;
  const NAME(Ridge) r = {.rows = rows, .values = values - first, .table = q->table, .base = q->base, .prior = q->prior,
                         .prior_count = (REAL)q->prior_count, .k = k, .ld = ld};
  double lengths[folds], shares[folds], weight = 0, size = 0, scale = 1;
  for (int64_t e = 0; e < count; e++) {
    double own = q->a[item_at(rows, first + e)];
    values[e] = (REAL)value_at(rows, q->scale, first + e), weight += own * own;
  }
  NAME(fold_out)(&r, q->penalty, folds, i, memory, z);
  weight = sqrt(weight);
  for (int f = 0; f < folds; f++) {
    double squared = q->bias_weight * q->bias_weight;
    for (int j = 1; j < k; j++) squared += (double)z[f * ld + j] * z[f * ld + j];
    lengths[f] = sqrt(squared), shares[f] = 0;
  }
  for (int64_t e = 0, fold = 0; e < count; e++, fold = fold + 1 < folds ? fold + 1 : 0) {
    size_t item = item_at(rows, first + e);
    REAL left = NAME(target)(&r, first + e) - NAME(dot)(r.table + item * ld, z + fold * ld, ld);
    double own = q->a[item] / weight;
    shares[fold] += own;
    x[e] = own * left * lengths[fold];
    size += x[e] * x[e];
  }
  if (q->clip > 0) scale = fmin(q->clip / fmax(sqrt(size), 1e-12), q->lift);
  for (int64_t e = 0; e < count; e++) x[e] *= scale;
  for (int f = 0; f < folds; f++, vectors += k, numbers += k) {
    double root = sqrt(shares[f] * scale);
    for (int j = 0; j < k; j++) {
      double own = j ? z[f * ld + j] : q->bias_weight;  // stands for the offset
      vectors[j] = own / lengths[f], numbers[j] = own * root * q->shrink * (j ? 1 : q->offset);
    }
  }
}

// Solve n systems with matrices A (ld, ld), of which the first k rows and columns count.
EXPORT void NAME(systems)(REAL *A, REAL *x, int64_t k, int64_t ld, int64_t n, uint8_t *failed) {
  for (int64_t i = 0; i < n; i++)
    failed[i] = NAME(solve)(A + (size_t)i * ld * ld, (int)k, (int)ld, EPSILON * k, x + (size_t)i * ld);
}

// The sums of `kernels.normal_equations`, for blocks of items.
EXPORT int64_t NAME(equations)(NAME(Ridge) r, int64_t *taken, const int64_t *ends, int64_t blocks,
                               const REAL *weights, int64_t *total) {
  const int k = (int)r.k, ld = (int)r.ld;
  const int64_t side = k + 1;
  REAL *memory = MEMORY(REAL, (size_t)ld * ld + 2 * (size_t)PART * ld + ld);
  REAL *G = memory, *b = G + (size_t)ld * ld, *P = b + ld, *L = P + (size_t)PART * ld;
  int sound = 1;
  EACH_BLOCK(begin, end) {
    if (!(sound = known(r.rows, begin, end))) break;
    for (int64_t i = begin; i < end; i++) {
      int64_t first = r.rows.indptr[i], last = r.rows.indptr[i + 1];
      memset(G, 0, sizeof(REAL) * (ld + 1) * ld);
      for (int64_t e = first, n = 0; e < last; e++) {
        const REAL *u = r.table + item_at(r.rows, e) * ld;
        memcpy(P + n * ld, u, sizeof(REAL) * ld);
        for (int j = 0; j < ld; j += WIDTH) STORE(L + n * ld + j, (weights ? weights[e] : 1) * LOAD(u + j));
        NAME(axpy)(r.values[e], u, b, ld);
        if (++n == PART || e + 1 == last) NAME(add_products)(L, P, (int)n, ld, 0, 0, G), n = 0;
      }
      int64_t *out = total + i * side * side;
      for (int row = 0; row < k && first < last; row++) {
        for (int col = row; col < k; col++) out[row * side + col] += (int64_t)G[(size_t)row * ld + col];
        out[row * side + k] += (int64_t)b[row];
      }
    }
  }
  free(memory);
  return sound;
}

// Scores and the best of them. Items are stored in panels of PANEL: entry (j, i) of a panel is number j of the panel's
// item i, so that an item's score is a sum over j, in order, whatever other items are in the panel.
typedef struct {
  Rows seen;                         // items that users have seen, ascending, which are left out
  const REAL *panels, *base, *cold;  // (panels, k, PANEL); the others by item, up to whole panels, -inf if no candidate
  const REAL *variances, *base_variance;  // panels of the same shape, or NULL; by item
  REAL caution;                      // standard deviations that are subtracted
  int64_t k, n;                      // n: the length of a list
  const REAL *vectors;               // (users, k)
  const uint8_t *known;              // whether a user has a history; otherwise they get the scores in `cold`
  int32_t *best;                     // (users, n), -1 where there are no more
  REAL *scores;                      // (users, n)
} NAME(TopN);

// The n best items of a user so far: a heap whose root is the worst of them, with scores of -inf where there are fewer.
// And the position of the first seen item that is not before the current panel.
typedef struct {
  REAL *scores;
  int32_t *items;
  int64_t seen, end;
} NAME(Best);

static inline int NAME(worse)(REAL s, int32_t i, REAL t, int32_t j) { return s < t || (s == t && i > j); }

// Replace the worst of the n best items by another one.
static void NAME(replace)(NAME(Best) * b, int64_t n, REAL score, int32_t item) {
  REAL *s = b->scores;
  int32_t *best = b->items;
  int64_t at = 0;
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && NAME(worse)(s[child + 1], best[child + 1], s[child], best[child])) child++;
    if (!NAME(worse)(s[child], best[child], score, item)) break;
    s[at] = s[child], best[at] = best[child];
  }
  s[at] = score, best[at] = item;
}

// Inner products of USERS vectors (k, USERS) with a panel, added to `start` of each user, or to 0.
static inline __attribute__((always_inline)) void NAME(products)(const REAL *panel, const REAL *u, int k,
                                                                 const REAL *const *start, int64_t item, REAL *out) {
  vec acc[USERS][PANEL_VECTORS];
  for (int i = 0; i < USERS; i++)
    for (int v = 0; v < PANEL_VECTORS; v++) acc[i][v] = start ? LOAD(start[i] + item + v * WIDTH) : (vec){0};
  for (int j = 0; j < k; j++)
    for (int i = 0; i < USERS; i++)
      for (int v = 0; v < PANEL_VECTORS; v++)
        acc[i][v] += LOAD(panel + (size_t)j * PANEL_VECTORS * WIDTH + v * WIDTH) * u[j * USERS + i];
  for (int i = 0; i < USERS; i++)
    for (int v = 0; v < PANEL_VECTORS; v++) STORE(out + (i * PANEL_VECTORS + v) * WIDTH, acc[i][v]);
}

EXPORT int64_t NAME(panel)(void) { return PANEL_VECTORS * WIDTH; }

// Update a user's list with the items of a panel.
static void NAME(take)(const NAME(TopN) * q, NAME(Best) * b, int64_t item, REAL *s) {
  const int panel = PANEL_VECTORS * WIDTH;
  for (int64_t at; b->seen < b->end && (at = (int64_t)item_at(q->seen, b->seen)) < item + panel; b->seen++)
    if (at >= item) s[at - item] = -INFINITY;
  for (int j = 0; j < panel; j++)
    if (s[j] > b->scores[0]) NAME(replace)(b, q->n, s[j], (int32_t)(item + j));
}

EXPORT int64_t NAME(top_n)(NAME(TopN) q, int64_t *taken, const int64_t *ends, int64_t blocks) {
  const int k = (int)q.k, panel = PANEL_VECTORS * WIDTH, each = k * USERS;
  enum { TOGETHER = 16 * USERS };  // users who share a panel while it is in the cache
  REAL *u = MEMORY(REAL, 2 * (size_t)k * TOGETHER + 2 * USERS * panel), *squares = u + (size_t)k * TOGETHER;
  REAL *found = squares + (size_t)k * TOGETHER, *spread = found + USERS * panel;
  NAME(Best) lists[TOGETHER];
  const REAL *start[TOGETHER];
  EACH_BLOCK(begin, end)
    for (int64_t first = begin; first < end; first += TOGETHER) {
      int users = end - first < TOGETHER ? (int)(end - first) : TOGETHER;
      memset(u, 0, sizeof(REAL) * k * TOGETHER);
      for (int i = 0; i < TOGETHER; i++) {
        start[i] = q.cold;
        if (i >= users) continue;
        const int64_t user = first + i, *seen = q.seen.indptr + user;
        lists[i] = (NAME(Best)){q.scores + user * q.n, q.best + user * q.n, seen[0], seen[1]};
        for (int64_t j = 0; j < q.n; j++) lists[i].scores[j] = -INFINITY, lists[i].items[j] = -1;
        if (!q.known[user]) continue;
        start[i] = q.base;
        for (int j = 0; j < k; j++) u[i / USERS * each + j * USERS + i % USERS] = q.vectors[user * k + j];
      }
      if (q.variances)
        for (int j = 0; j < k * TOGETHER; j++) squares[j] = u[j] * u[j];
      for (int64_t item = 0; item < q.seen.size; item += panel)
        for (int group = 0; group * USERS < users; group++) {
          NAME(products)(q.panels + item * k, u + group * each, k, start + group * USERS, item, found);
          if (q.variances) NAME(products)(q.variances + item * k, squares + group * each, k, NULL, 0, spread);
          for (int i = 0; i < USERS && group * USERS + i < users; i++) {
            NAME(Best) *b = lists + group * USERS + i;
            REAL *s = found + i * panel;
            if (q.variances)
              for (int j = 0; j < panel; j++)
                s[j] -= q.caution * SQRT(q.base_variance[item + j] + spread[i * panel + j]);
            int any = 0;
            for (int j = 0; j < panel; j++) any |= s[j] > b->scores[0];
            if (any) NAME(take)(&q, b, item, s);
          }
        }
      for (int i = 0; i < users; i++)  // sort, best first: repeatedly move the worst behind the others
        for (int64_t left = q.n - 1; left > 0; left--) {
          REAL score = lists[i].scores[left];
          int32_t item = lists[i].items[left];
          lists[i].scores[left] = lists[i].scores[0], lists[i].items[left] = lists[i].items[0];
          NAME(replace)(lists + i, left, score, item);
        }
    }
  free(u);
  return 1;
}
