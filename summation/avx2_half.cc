// f16 and bf16 with AVX2 and F16C: a vector of 16 elements is two accumulators of f32.
#include "summation/avx2.inc"

namespace tally::summation {
namespace {

struct Pair {
  __m256 a, b;
};

// Loads the f32 of as many elements, in their order.
Pair load_floats(const std::byte* p) {
  const auto* floats = reinterpret_cast<const float*>(p);
  return {_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + 8)};
}

void store_floats(std::byte* p, Pair x) {
  auto* floats = reinterpret_cast<float*>(p);
  _mm256_storeu_ps(floats, x.a);
  _mm256_storeu_ps(floats + 8, x.b);
}

__m256 unordered(__m256 a, __m256 b) {
  return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}

__m256 canonical(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  return _mm256_blendv_ps(x, nan, unordered(x, x));
}

// a is elements 0..7, b is 8..15.
struct F16 {
  static constexpr int kInfinity = 0x7c00;
  static constexpr int kNan = 0x7e00;
  static Pair load(const std::byte* p) {
    return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 16))};
  }
  static Pair widen(__m256i raw) {
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(raw)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(raw, 1))};
  }
  static __m256i round(Pair x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
    return _mm256_set_m128i(_mm256_cvtps_ph(x.b, kNearest), _mm256_cvtps_ph(x.a, kNearest));
  }
  // Convert between accumulators and f32 in the elements' order.
  static Pair of_order(Pair x) { return x; }
  static Pair in_order(Pair x) { return x; }
};

// a is the even elements, b the odd ones, because a shift and an `and` cost less than shuffles.
struct Bf16 {
  static constexpr int kInfinity = 0x7f80;
  static constexpr int kNan = 0x7fc0;
  static Pair load(const std::byte* p) { return widen(Vector256::load(p)); }
  static Pair widen(__m256i raw) {
    const __m256i odd = _mm256_set1_epi32(static_cast<int>(0xffff0000));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(raw, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(raw, odd))};
  }
  static __m256i round(Pair x) {
    return _mm256_blend_epi16(_mm256_srli_epi32(rounded(x.a), 16), rounded(x.b), 0xaa);
  }

  // Convert between accumulators and f32 in the elements' order. Shuffles work within halves of a
  // vector.
  static Pair of_order(Pair x) {
    const __m256 low = _mm256_permute2f128_ps(x.a, x.b, 0x20);
    const __m256 high = _mm256_permute2f128_ps(x.a, x.b, 0x31);
    return {_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd)};
  }
  static Pair in_order(Pair x) {
    const __m256 low = _mm256_unpacklo_ps(x.a, x.b);
    const __m256 high = _mm256_unpackhi_ps(x.a, x.b);
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }

 private:
  // Rounds to nearest, ties to even, in the upper half. Not for NaN.
  static __m256i rounded(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), lowest);
  }
};

template <class T>
struct HalfSum {
  using Vector = Vector256;
  using Acc = Pair;
  static constexpr int kElementBytes = 2;
  static constexpr std::size_t kWideScale = 2;  // f32 for an element of two bytes
  static constexpr int kUnits = 4;
  static constexpr int kMostSkewed = 0;
  static Acc load(const std::byte* p) { return T::load(p); }
  static Acc widen(__m256i raw) { return T::widen(raw); }
  static Acc fold(Acc x, Acc y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static Acc load_wide(const std::byte* p) { return T::of_order(load_floats(p)); }
  static void store_wide(std::byte* p, Acc acc) { store_floats(p, T::in_order(acc)); }
  // Divides, and makes every NaN the canonical one.
  template <int Units>
  [[gnu::always_inline]] static void settle(Acc (&acc)[Units], std::uint32_t divisor) {
    if (divisor != 1) [[unlikely]] {
      const __m256 d = _mm256_set1_ps(static_cast<float>(divisor));
      TALLY_UNROLL for (int u = 0; u < Units; ++u) {
        acc[u] = {_mm256_div_ps(acc[u].a, d), _mm256_div_ps(acc[u].b, d)};
      }
    }
    __m256 nan = unordered(acc[0].a, acc[0].b);
    TALLY_UNROLL for (int u = 1; u < Units; ++u) {
      nan = _mm256_or_ps(nan, unordered(acc[u].a, acc[u].b));
    }
    if (_mm256_movemask_ps(nan) != 0) [[unlikely]] {
      TALLY_UNROLL for (int u = 0; u < Units; ++u) {
        acc[u] = {canonical(acc[u].a), canonical(acc[u].b)};
      }
    }
  }
  template <int Units>
  [[gnu::always_inline]] static void finish(Acc (&acc)[Units], __m256i (&raw)[Units],
                                            std::uint32_t divisor) {
    settle(acc, divisor);
    TALLY_UNROLL for (int u = 0; u < Units; ++u) raw[u] = T::round(acc[u]);
  }
};

// Minimum and maximum need no conversion. As signed integers, with the magnitude of negative
// numbers inverted, halves are in order: -0 is below +0, and NaNs lie beyond the infinities. The
// accumulator keeps both ends, because either may show a NaN.
struct Ends {
  __m256i min, max;
};

template <class T, bool IsMax>
struct HalfEnd {
  using Vector = Vector256;
  using Acc = Ends;
  static constexpr int kElementBytes = 2;
  static constexpr int kUnits = 4;
  static constexpr int kMostSkewed = 0;
  static __m256i reorder(__m256i x) {  // its own inverse
    const __m256i sign = _mm256_srai_epi16(x, 15);
    return _mm256_xor_si256(x, _mm256_and_si256(sign, _mm256_set1_epi16(0x7fff)));
  }
  static Acc load(const std::byte* p) { return widen(Vector256::load(p)); }
  static Acc widen(__m256i raw) {
    const __m256i x = reorder(raw);
    return {x, x};
  }
  static Acc fold(Acc x, Acc y) {
    return {_mm256_min_epi16(x.min, y.min), _mm256_max_epi16(x.max, y.max)};
  }
  template <int Units>
  [[gnu::always_inline]] static void finish(Acc (&acc)[Units], __m256i (&raw)[Units],
                                            std::uint32_t /*divisor*/) {
    const __m256i top = _mm256_set1_epi16(T::kInfinity);
    const __m256i bottom = _mm256_set1_epi16(~T::kInfinity);
    TALLY_UNROLL for (int u = 0; u < Units; ++u) {
      const __m256i nan = _mm256_or_si256(_mm256_cmpgt_epi16(acc[u].max, top),
                                          _mm256_cmpgt_epi16(bottom, acc[u].min));
      raw[u] = _mm256_blendv_epi8(reorder(IsMax ? acc[u].max : acc[u].min),
                                  _mm256_set1_epi16(T::kNan), nan);
    }
  }
};

SixteenDoubles f16_doubles(const std::byte* p) {
  return from_f32(_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 16)));
}
SixteenDoubles bf16_doubles(const std::byte* p) {
  const auto widen = [](__m128i raw) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
  };
  return from_f32(widen(load_128(p)), widen(load_128(p + 16)));
}

template <class T>
using Min = HalfEnd<T, false>;
template <class T>
using Max = HalfEnd<T, true>;

}  // namespace

constinit const TypeKernels avx2_f16 =
    make_type<HalfSum<F16>, Min<F16>, Max<F16>>(&squares_of<2, f16_doubles>);
constinit const TypeKernels avx2_bf16 =
    make_type<HalfSum<Bf16>, Min<Bf16>, Max<Bf16>>(&squares_of<2, bf16_doubles>);

}  // namespace tally::summation
