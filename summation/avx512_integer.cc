// i8, u8, i32 and i64 with AVX-512 (F, BW, DQ).
#include "summation/avx512.inc"
#include "summation/integer_kernels.inc"

namespace tally::summation {
namespace {

// clang-format off
struct I8 : Integer<std::int8_t, Vector512> {
  static __m512i add(__m512i a, __m512i b) { return _mm512_add_epi8(a, b); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epi8(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epi8(a, b); }
};
struct U8 : Integer<std::uint8_t, Vector512> {
  static __m512i add(__m512i a, __m512i b) { return _mm512_add_epi8(a, b); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epu8(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epu8(a, b); }
};
struct I32 : Integer<std::int32_t, Vector512> {
  static __m512i add(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epi32(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epi32(a, b); }
};
struct I64 : Integer<std::int64_t, Vector512> {
  static __m512i add(__m512i a, __m512i b) { return _mm512_add_epi64(a, b); }
  static __m512i min(__m512i a, __m512i b) { return _mm512_min_epi64(a, b); }
  static __m512i max(__m512i a, __m512i b) { return _mm512_max_epi64(a, b); }
};
// clang-format on

SixteenDoubles i8_doubles(const std::byte* p) {
  return from_i32(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
SixteenDoubles u8_doubles(const std::byte* p) {
  return from_i32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
SixteenDoubles i32_doubles(const std::byte* p) {
  return from_i32(_mm512_loadu_si512(p));
}
SixteenDoubles i64_doubles(const std::byte* p) {
  return {_mm512_cvtepi64_pd(_mm512_loadu_si512(p)),
          _mm512_cvtepi64_pd(_mm512_loadu_si512(p + 64))};
}

}  // namespace

constinit const TypeKernels avx512_i8 =
    make_type<IntegerSum<I8>, IntegerMin<I8>, IntegerMax<I8>>(&squares_of<1, i8_doubles>);
constinit const TypeKernels avx512_u8 =
    make_type<IntegerSum<U8>, IntegerMin<U8>, IntegerMax<U8>>(&squares_of<1, u8_doubles>);
constinit const TypeKernels avx512_i32 =
    make_type<IntegerSum<I32>, IntegerMin<I32>, IntegerMax<I32>>(&squares_of<4, i32_doubles>);
constinit const TypeKernels avx512_i64 =
    make_type<IntegerSum<I64>, IntegerMin<I64>, IntegerMax<I64>>(&squares_of<8, i64_doubles>);

}  // namespace tally::summation
