// i8, u8, i32 and i64 with AVX2.
#include "summation/avx2.inc"
#include "summation/integer_kernels.inc"

namespace tally::summation {
namespace {

// clang-format off
struct I8 : Integer<std::int8_t, Vector256> {
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi8(a, b); }
  static __m256i min(__m256i a, __m256i b) { return _mm256_min_epi8(a, b); }
  static __m256i max(__m256i a, __m256i b) { return _mm256_max_epi8(a, b); }
};
struct U8 : Integer<std::uint8_t, Vector256> {
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi8(a, b); }
  static __m256i min(__m256i a, __m256i b) { return _mm256_min_epu8(a, b); }
  static __m256i max(__m256i a, __m256i b) { return _mm256_max_epu8(a, b); }
};
struct I32 : Integer<std::int32_t, Vector256> {
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
  static __m256i min(__m256i a, __m256i b) { return _mm256_min_epi32(a, b); }
  static __m256i max(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
};
struct I64 : Integer<std::int64_t, Vector256> {
  static __m256i add(__m256i a, __m256i b) { return _mm256_add_epi64(a, b); }
  static __m256i min(__m256i a, __m256i b) {
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
  }
  static __m256i max(__m256i a, __m256i b) {
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
  }
};
// clang-format on

SixteenDoubles i8_doubles(const std::byte* p) {
  const __m128i x = load_128(p);
  return from_i32(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
SixteenDoubles u8_doubles(const std::byte* p) {
  const __m128i x = load_128(p);
  return from_i32(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
SixteenDoubles i32_doubles(const std::byte* p) {
  return from_i32(Vector256::load(p), Vector256::load(p + 32));
}
// AVX2 has no conversion from 64-bit integers.
SixteenDoubles i64_doubles(const std::byte* p) {
  std::int64_t x[16];
  __builtin_memcpy(x, p, sizeof(x));
  double y[16];
  for (int i = 0; i < 16; ++i) y[i] = static_cast<double>(x[i]);
  return {{_mm256_loadu_pd(y), _mm256_loadu_pd(y + 4), _mm256_loadu_pd(y + 8),
           _mm256_loadu_pd(y + 12)}};
}

}  // namespace

constinit const TypeKernels avx2_i8 =
    make_type<IntegerSum<I8>, IntegerMin<I8>, IntegerMax<I8>>(&squares_of<1, i8_doubles>);
constinit const TypeKernels avx2_u8 =
    make_type<IntegerSum<U8>, IntegerMin<U8>, IntegerMax<U8>>(&squares_of<1, u8_doubles>);
constinit const TypeKernels avx2_i32 =
    make_type<IntegerSum<I32>, IntegerMin<I32>, IntegerMax<I32>>(&squares_of<4, i32_doubles>);
constinit const TypeKernels avx2_i64 =
    make_type<IntegerSum<I64>, IntegerMin<I64>, IntegerMax<I64>>(&squares_of<8, i64_doubles>);

}  // namespace tally::summation
