#include <immintrin.h>

#include "perf/kernels/ceiling.h"

namespace tally::perf {

unsigned read_avx512(const std::byte* const* inputs, std::size_t count, std::size_t bytes) {
  __m512i a = _mm512_setzero_si512();
  __m512i b = a;
  __m512i c = a;
  __m512i d = a;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* end = inputs[i] + bytes;
    for (const std::byte* p = inputs[i]; p != end; p += 256) {
      a = _mm512_or_si512(a, _mm512_loadu_si512(p));
      b = _mm512_or_si512(b, _mm512_loadu_si512(p + 64));
      c = _mm512_or_si512(c, _mm512_loadu_si512(p + 128));
      d = _mm512_or_si512(d, _mm512_loadu_si512(p + 192));
    }
  }
  a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
  return static_cast<unsigned>(_mm512_test_epi32_mask(a, a));
}

}  // namespace tally::perf
