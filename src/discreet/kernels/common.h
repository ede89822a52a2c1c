// What all files share: exported names, and item numbers of any size.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

// Item numbers, of 1, 2 or 4 bytes without a sign.
typedef struct {
  const void *data;
  int64_t bytes;
} Indices;

EXPORT int64_t below(const void *items, int64_t bytes, int64_t begin, int64_t end, int64_t size);

static inline size_t item_at(Indices indices, int64_t at) {
  if (indices.bytes == 1) return ((const uint8_t *)indices.data)[at];
  if (indices.bytes == 2) return ((const uint16_t *)indices.data)[at];
  return ((const uint32_t *)indices.data)[at];
}

// Threads share blocks from ends[i] to ends[i + 1]: each takes the next one when it is done with one, and Python does
// nothing in between. After TURNS blocks a call returns, so that a fit can be stopped.
enum { TURNS = 64 };
#define EACH_BLOCK(begin, end)                                                                 \
  for (int64_t turn = 0, at_, begin, end;                                                      \
       turn < TURNS && (at_ = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED)) < blocks &&      \
       (begin = ends[at_], end = ends[at_ + 1], 1);                                            \
       turn++)
