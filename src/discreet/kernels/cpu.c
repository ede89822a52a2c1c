// The instruction set that processor and operating system support: 2, 3 or 4 for x86-64-v2 to -v4, 0 elsewhere.
#include "common.h"

#if defined(__x86_64__)
#include <cpuid.h>

EXPORT int instruction_set(void) {
  unsigned a, b, c, d, low = 0, high;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
  unsigned v3 = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29;  // FMA, MOVBE, OSXSAVE, AVX, F16C
  if ((c & v3) != v3) return 2;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // the registers that the operating system saves
  if ((low & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
  unsigned avx2 = 1u << 3 | 1u << 5 | 1u << 8;  // BMI1, AVX2, BMI2
  if ((b & avx2) != avx2) return 2;
  unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F, DQ, CD, BW, VL
  return (b & avx512) == avx512 && (low & 0xe6) == 0xe6 ? 4 : 3;
}
#else
EXPORT int instruction_set(void) { return 0; }
#endif
