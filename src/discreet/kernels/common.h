// Definitions for all files: exported names, rows of entries, and blocks of rows that threads take.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <malloc.h>
#define free _aligned_free
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define MEMORY(type, n) ((type *)aligned_alloc(64, ((n) * sizeof(type) + 63) / 64 * 64))

enum { PART = 64 };  // entries, or rows, that are gathered at a time, so that they stay in the L1 and L2 caches

// n rows: row i has the items at indptr[i] to indptr[i + 1], unsigned numbers of 1, 2 or 4 bytes.
typedef struct {
  const int64_t *indptr;
  const void *items;
  int64_t bytes, n, size;  // items are below size
  const void *given;       // values that go with the items, of 4 or 8 bytes, or NULL
  int64_t width;
} Rows;

// Computes row i's contribution to a sum: x of each entry, vectors and numbers. `memory` is scratch space.
typedef void Contribution(const void *given, Rows rows, int64_t i, void *memory, double *x, double *vectors,
                          double *numbers);

// A value counts as (value - middle) / unit, clipped to [-reach, reach].
typedef struct { double middle, unit, reach; } Scale;

static inline double value_at(Rows rows, Scale s, int64_t at) {
  double given = rows.width == 4 ? ((const float *)rows.given)[at] : ((const double *)rows.given)[at];
  double own = (given - s.middle) / s.unit;
  return own < -s.reach ? -s.reach : own > s.reach ? s.reach : own;
}

static inline size_t item_at(Rows rows, int64_t at) {
  if (rows.bytes == 1) return ((const uint8_t *)rows.items)[at];
  if (rows.bytes == 2) return ((const uint16_t *)rows.items)[at];
  return ((const uint32_t *)rows.items)[at];
}

// Whether all items of some rows are below size. If not, functions return 0; if memory runs out, -1.
static inline int known(Rows rows, int64_t begin, int64_t end) {
  int over = 0;
  for (int64_t e = rows.indptr[begin], last = rows.indptr[end]; e < last; e++)
    over |= (int64_t)item_at(rows, e) >= rows.size;
  return !over;
}

// Threads share blocks of rows, from ends[i] to ends[i + 1]: each takes the next one when it has finished one, without
// calling Python. A call returns after TURNS blocks, so that a fit can be interrupted.
enum { TURNS = 64 };
#define EACH_BLOCK(begin, end)                                                                 \
  for (int64_t turn = 0, at_, begin, end;                                                      \
       turn < TURNS && (at_ = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED)) < blocks &&      \
       (begin = ends[at_], end = ends[at_ + 1], 1);                                            \
       turn++)
