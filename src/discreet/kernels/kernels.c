// What is done for each user, or each item, by itself: ridge regressions, conjugate gradients, the best items.
//
// This file is compiled once for each instruction set (-DSET=...), and `library.py` calls the functions of the best one
// that the processor has. It must not be compiled with -ffast-math: sums are written in the order they are meant in.

#include "common.h"

#if defined(_WIN32)
#include <malloc.h>
#define free _aligned_free
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#endif

#define JOIN_(a, b, c) a##_##b##_##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define MEMORY(type, n) ((type *)aligned_alloc(64, ((n) * sizeof(type) + 63) / 64 * 64))

// Bytes of a vector register, and how many rows and vectors of a product are held in registers at a time.
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE = 8, USERS = 8, PANEL_VECTORS = 2 };
#elif defined(__AVX__)
enum { VECTOR = 32, TILE = 4, USERS = 4, PANEL_VECTORS = 2 };
#else
enum { VECTOR = 16, TILE = 4, USERS = 4, PANEL_VECTORS = 2 };
#endif

enum {
  PAD = 16,        // the rows of a table are padded to a multiple of this
  PART = 64,       // entries of a row that are gathered at a time: they stay in the first cache
  GRAM_PAYS = 32,  // columns up to which conjugate gradients multiply by Gram matrices
};

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
