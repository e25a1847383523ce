// Compiled once per instruction set. gradient_kernels.cc explains why nothing is shared.
#include "perf/ceiling/ceiling_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cstring>
#endif

namespace tally::perf::TALLY_PERF_ISA {
namespace {

#if defined(__AVX512F__)
using Vector = __m512i;
inline Vector load(const std::byte* from) {
  return _mm512_loadu_si512(from);
}
inline Vector either(Vector a, Vector b) {
  return _mm512_or_si512(a, b);
}
inline void store(std::byte* to, Vector v) {
  _mm512_storeu_si512(to, v);
}
inline void store_past(std::byte* to, Vector v) {
  _mm512_stream_si512(reinterpret_cast<Vector*>(to), v);
}
#elif defined(__AVX2__)
using Vector = __m256i;
inline Vector load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
}
inline Vector either(Vector a, Vector b) {
  return _mm256_or_si256(a, b);
}
inline void store(std::byte* to, Vector v) {
  _mm256_storeu_si256(reinterpret_cast<Vector*>(to), v);
}
inline void store_past(std::byte* to, Vector v) {
  _mm256_stream_si256(reinterpret_cast<Vector*>(to), v);
}
#elif defined(__x86_64__)
using Vector = __m128i;
inline Vector load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const Vector*>(from));
}
inline Vector either(Vector a, Vector b) {
  return _mm_or_si128(a, b);
}
inline void store(std::byte* to, Vector v) {
  _mm_storeu_si128(reinterpret_cast<Vector*>(to), v);
}
inline void store_past(std::byte* to, Vector v) {
  _mm_stream_si128(reinterpret_cast<Vector*>(to), v);
}
#else
using Vector = unsigned long long;
inline Vector load(const std::byte* from) {
  Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline Vector either(Vector a, Vector b) {
  return a | b;
}
inline void store(std::byte* to, Vector v) {
  __builtin_memcpy(to, &v, sizeof v);
}
inline void store_past(std::byte* to, Vector v) {
  store(to, v);
}
#endif

constexpr std::size_t kVectors = kStreamStep / sizeof(Vector);

template <bool PastCaches>
void move(const StreamJob& job) {
  for (std::size_t at = job.begin; at < job.end; at += kStreamStep) {
    Vector merged[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      merged[v] = load(job.inputs[0] + at + v * sizeof(Vector));
    }
    for (std::size_t i = 1; i < job.input_count; ++i) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        merged[v] = either(merged[v], load(job.inputs[i] + at + v * sizeof(Vector)));
      }
    }
    for (std::size_t i = 0; i < job.output_count; ++i) {
      for (std::size_t v = 0; v < kVectors; ++v) {
        std::byte* to = job.outputs[i] + at + v * sizeof(Vector);
        PastCaches ? store_past(to, merged[v]) : store(to, merged[v]);
      }
    }
  }
}

}  // namespace

void stream(const StreamJob& job) {
  if (!job.past_caches) return move<false>(job);
  move<true>(job);
#if defined(__x86_64__)
  _mm_sfence();  // the stores are done before the function returns
#endif
}

}  // namespace tally::perf::TALLY_PERF_ISA
