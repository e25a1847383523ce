#include "perf/kernels/byteps_reducer.h"

#include <immintrin.h>

namespace tally::perf {
namespace {

template <class T>
void copy(T* to, const T* from, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace

void byteps_sum_f32(float* to, const float* from, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) to[i] = to[i] + from[i];
}

void byteps_sum_f16(std::uint16_t* to, const std::uint16_t* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto* at = reinterpret_cast<__m128i*>(to + i);
    const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128(at));
    const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm_storeu_si128(at, _mm256_cvtps_ph(_mm256_add_ps(a, b), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < count; ++i) {
    const __m128 a = _mm_cvtph_ps(_mm_cvtsi32_si128(to[i]));
    const __m128 b = _mm_cvtph_ps(_mm_cvtsi32_si128(from[i]));
    const __m128i sum = _mm_cvtps_ph(_mm_add_ss(a, b), _MM_FROUND_TO_NEAREST_INT);
    to[i] = static_cast<std::uint16_t>(_mm_cvtsi128_si32(sum));
  }
}

void byteps_reduce_f32(float* to, const float* const* arrivals, std::size_t arrived,
                       std::size_t count) {
  copy(to, arrivals[0], count);
  for (std::size_t i = 1; i < arrived; ++i) byteps_sum_f32(to, arrivals[i], count);
}

void byteps_reduce_f16(std::uint16_t* to, const std::uint16_t* const* arrivals, std::size_t arrived,
                       std::size_t count) {
  copy(to, arrivals[0], count);
  for (std::size_t i = 1; i < arrived; ++i) byteps_sum_f16(to, arrivals[i], count);
}

}  // namespace tally::perf
