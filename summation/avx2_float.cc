// f32 and f64 with AVX2.
#include "summation/avx2.inc"

namespace tally::summation {
namespace {

struct F32 {
  using Vector = Vector256;
  using Acc = __m256;
  static constexpr int kElementBytes = 4;
  static constexpr int kUnits = 8;
  static constexpr int kMostSkewed = 12;
  static Acc load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static Acc widen(__m256i raw) { return _mm256_castsi256_ps(raw); }
  static __m256i raw(Acc acc) { return _mm256_castps_si256(acc); }
  static Acc add(Acc a, Acc b) { return _mm256_add_ps(a, b); }
  static Acc min(Acc a, Acc b) { return _mm256_min_ps(a, b); }
  static Acc bit_or(Acc a, Acc b) { return _mm256_or_ps(a, b); }
  static Acc negate(Acc a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0F)); }
  static Acc divide(Acc a, std::uint32_t divisor) {
    return _mm256_div_ps(a, _mm256_set1_ps(static_cast<float>(divisor)));
  }
  static Acc unordered(Acc a, Acc b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
  static Acc either(Acc a, Acc b) { return _mm256_or_ps(a, b); }
  static bool any(Acc mask) { return _mm256_movemask_ps(mask) != 0; }
  static Acc canonical(Acc a) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(a, nan, unordered(a, a));
  }
};

struct F64 {
  using Vector = Vector256;
  using Acc = __m256d;
  static constexpr int kElementBytes = 8;
  static constexpr int kUnits = 8;
  static constexpr int kMostSkewed = 12;
  static Acc load(const std::byte* p) {
    return _mm256_loadu_pd(reinterpret_cast<const double*>(p));
  }
  static Acc widen(__m256i raw) { return _mm256_castsi256_pd(raw); }
  static __m256i raw(Acc acc) { return _mm256_castpd_si256(acc); }
  static Acc add(Acc a, Acc b) { return _mm256_add_pd(a, b); }
  static Acc min(Acc a, Acc b) { return _mm256_min_pd(a, b); }
  static Acc bit_or(Acc a, Acc b) { return _mm256_or_pd(a, b); }
  static Acc negate(Acc a) { return _mm256_xor_pd(a, _mm256_set1_pd(-0.0)); }
  static Acc divide(Acc a, std::uint32_t divisor) {
    return _mm256_div_pd(a, _mm256_set1_pd(static_cast<double>(divisor)));
  }
  static Acc unordered(Acc a, Acc b) { return _mm256_cmp_pd(a, b, _CMP_UNORD_Q); }
  static Acc either(Acc a, Acc b) { return _mm256_or_pd(a, b); }
  static bool any(Acc mask) { return _mm256_movemask_pd(mask) != 0; }
  static Acc canonical(Acc a) {
    const __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    return _mm256_blendv_pd(a, nan, unordered(a, a));
  }
};

SixteenDoubles f32_doubles(const std::byte* p) {
  return from_f32(F32::load(p), F32::load(p + 32));
}
SixteenDoubles f64_doubles(const std::byte* p) {
  return {{F64::load(p), F64::load(p + 32), F64::load(p + 64), F64::load(p + 96)}};
}

}  // namespace
}  // namespace tally::summation

#include "summation/float_kernels.inc"

namespace tally::summation {

constinit const TypeKernels avx2_f32 =
    make_type<FloatSum<F32>, FloatMin<F32>, FloatMax<F32>>(&squares_of<4, f32_doubles>);
constinit const TypeKernels avx2_f64 =
    make_type<FloatSum<F64>, FloatMin<F64>, FloatMax<F64>>(&squares_of<8, f64_doubles>);

}  // namespace tally::summation
