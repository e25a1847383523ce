#include <immintrin.h>

#include "perf/kernels/ceiling.h"

namespace tally::perf {

unsigned read_avx2(const std::byte* const* inputs, std::size_t count, std::size_t bytes) {
  __m256i sum[4] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const auto* p = reinterpret_cast<const __m256i*>(inputs[i]);
    const auto* end = reinterpret_cast<const __m256i*>(inputs[i] + bytes);
    for (; p != end; p += 4) {
      for (int u = 0; u < 4; ++u) sum[u] = _mm256_or_si256(sum[u], _mm256_loadu_si256(p + u));
    }
  }
  const __m256i all =
      _mm256_or_si256(_mm256_or_si256(sum[0], sum[1]), _mm256_or_si256(sum[2], sum[3]));
  return static_cast<unsigned>(_mm256_movemask_epi8(all));
}

}  // namespace tally::perf
