// f32 and f64 with AVX-512 (F, BW, DQ).
#include "summation/avx512.inc"

namespace tally::summation {
namespace {

struct F32 {
  using Vector = Vector512;
  using Acc = __m512;
  static constexpr int kElementBytes = 4;
  static constexpr int kUnits = 4;
  static constexpr int kMostSkewed = 16;
  static Acc load(const std::byte* p) { return _mm512_loadu_ps(p); }
  static Acc widen(__m512i raw) { return _mm512_castsi512_ps(raw); }
  static __m512i raw(Acc acc) { return _mm512_castps_si512(acc); }
  static Acc add(Acc a, Acc b) { return _mm512_add_ps(a, b); }
  static Acc min(Acc a, Acc b) { return _mm512_min_ps(a, b); }
  static Acc bit_or(Acc a, Acc b) { return _mm512_or_ps(a, b); }
  static Acc negate(Acc a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0F)); }
  static Acc divide(Acc a, std::uint32_t divisor) {
    return _mm512_div_ps(a, _mm512_set1_ps(static_cast<float>(divisor)));
  }
  static unsigned unordered(Acc a, Acc b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
  static unsigned either(unsigned a, unsigned b) { return a | b; }
  static bool any(unsigned mask) { return mask != 0; }
  static Acc canonical(Acc a) {
    const __m512i nan = _mm512_set1_epi32(0x7fc00000);
    return _mm512_mask_mov_ps(a, static_cast<__mmask16>(unordered(a, a)), _mm512_castsi512_ps(nan));
  }
};

struct F64 {
  using Vector = Vector512;
  using Acc = __m512d;
  static constexpr int kElementBytes = 8;
  static constexpr int kUnits = 4;
  static constexpr int kMostSkewed = 16;
  static Acc load(const std::byte* p) { return _mm512_loadu_pd(p); }
  static Acc widen(__m512i raw) { return _mm512_castsi512_pd(raw); }
  static __m512i raw(Acc acc) { return _mm512_castpd_si512(acc); }
  static Acc add(Acc a, Acc b) { return _mm512_add_pd(a, b); }
  static Acc min(Acc a, Acc b) { return _mm512_min_pd(a, b); }
  static Acc bit_or(Acc a, Acc b) { return _mm512_or_pd(a, b); }
  static Acc negate(Acc a) { return _mm512_xor_pd(a, _mm512_set1_pd(-0.0)); }
  static Acc divide(Acc a, std::uint32_t divisor) {
    return _mm512_div_pd(a, _mm512_set1_pd(static_cast<double>(divisor)));
  }
  static unsigned unordered(Acc a, Acc b) { return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
  static unsigned either(unsigned a, unsigned b) { return a | b; }
  static bool any(unsigned mask) { return mask != 0; }
  static Acc canonical(Acc a) {
    const __m512i nan = _mm512_set1_epi64(0x7ff8000000000000);
    return _mm512_mask_mov_pd(a, static_cast<__mmask8>(unordered(a, a)), _mm512_castsi512_pd(nan));
  }
};

SixteenDoubles f32_doubles(const std::byte* p) {
  return from_f32(_mm512_loadu_ps(p));
}
SixteenDoubles f64_doubles(const std::byte* p) {
  return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 64)};
}

}  // namespace
}  // namespace tally::summation

#include "summation/float_kernels.inc"

namespace tally::summation {

constinit const TypeKernels avx512_f32 =
    make_type<FloatSum<F32>, FloatMin<F32>, FloatMax<F32>>(&squares_of<4, f32_doubles>);
constinit const TypeKernels avx512_f64 =
    make_type<FloatSum<F64>, FloatMin<F64>, FloatMax<F64>>(&squares_of<8, f64_doubles>);

}  // namespace tally::summation
