// f16 and bf16 with AVX-512 (F, BW, DQ): a vector of 32 elements is two accumulators of f32.
#include "summation/avx512.inc"

namespace tally::summation {
namespace {

struct Pair {
  __m512 a, b;
};

// Loads the f32 of as many elements, in their order.
Pair load_floats(const std::byte* p) {
  const auto* floats = reinterpret_cast<const float*>(p);
  return {_mm512_loadu_ps(floats), _mm512_loadu_ps(floats + 16)};
}

void store_floats(std::byte* p, Pair x) {
  auto* floats = reinterpret_cast<float*>(p);
  _mm512_storeu_ps(floats, x.a);
  _mm512_storeu_ps(floats + 16, x.b);
}

__mmask16 unordered(__m512 a, __m512 b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}

__m512 canonical(__m512 x) {
  const __m512i nan = _mm512_set1_epi32(0x7fc00000);
  return _mm512_mask_mov_ps(x, unordered(x, x), _mm512_castsi512_ps(nan));
}

// a is elements 0..15, b is 16..31.
struct F16 {
  static constexpr int kUnits = 4;
  static constexpr int kInfinity = 0x7c00;
  static constexpr int kNan = 0x7e00;
  static Pair load(const std::byte* p) {
    // Two loads with conversion: splitting one load would cost a shuffle.
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
            _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)))};
  }
  static Pair widen(__m512i raw) {
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(raw)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64(raw, 1))};
  }
  static __m512i round(Pair x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(x.a, kNearest)),
                              _mm512_cvtps_ph(x.b, kNearest), 1);
  }
  // Convert between accumulators and f32 in the elements' order.
  static Pair of_order(Pair x) { return x; }
  static Pair in_order(Pair x) { return x; }
};

// a is the even elements, b the odd ones, because a shift and an `and` cost less than shuffles.
struct Bf16 {
  static constexpr int kUnits = 4;
  static constexpr int kInfinity = 0x7f80;
  static constexpr int kNan = 0x7fc0;
  static Pair load(const std::byte* p) { return widen(Vector512::load(p)); }
  static Pair widen(__m512i raw) {
    const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(raw, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(raw, odd))};
  }
  // Not VCVTNE2PS2BF16, because it treats subnormals as zeros
  // (docs/decisions/0002-one-file-per-instruction-set.md).
  static __m512i round(Pair x) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(rounded(x.a), 16), rounded(x.b));
  }

  // Convert between accumulators and f32 in the elements' order.
  static Pair of_order(Pair x) {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return {_mm512_permutex2var_ps(x.a, even, x.b), _mm512_permutex2var_ps(x.a, odd, x.b)};
  }
  static Pair in_order(Pair x) {
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    return {_mm512_permutex2var_ps(x.a, first, x.b), _mm512_permutex2var_ps(x.a, second, x.b)};
  }

 private:
  // Rounds to nearest, ties to even, in the upper half. Not for NaN.
  static __m512i rounded(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lowest);
  }
};

template <class T>
struct HalfSum {
  using Vector = Vector512;
  using Acc = Pair;
  static constexpr int kElementBytes = 2;
  static constexpr int kUnits = T::kUnits;
  static constexpr std::size_t kWideScale = 2;  // f32 for an element of two bytes
  static constexpr int kMostSkewed = 12;
  static Acc load(const std::byte* p) { return T::load(p); }
  static Acc widen(__m512i raw) { return T::widen(raw); }
  static Acc fold(Acc x, Acc y) { return {_mm512_add_ps(x.a, y.a), _mm512_add_ps(x.b, y.b)}; }
  static Acc load_wide(const std::byte* p) { return T::of_order(load_floats(p)); }
  static void store_wide(std::byte* p, Acc acc) { store_floats(p, T::in_order(acc)); }
  // Divides, and makes every NaN the canonical one.
  template <int Units>
  [[gnu::always_inline]] static void settle(Acc (&acc)[Units], std::uint32_t divisor) {
    if (divisor != 1) [[unlikely]] {
      const __m512 d = _mm512_set1_ps(static_cast<float>(divisor));
      TALLY_UNROLL for (int u = 0; u < Units; ++u) {
        acc[u] = {_mm512_div_ps(acc[u].a, d), _mm512_div_ps(acc[u].b, d)};
      }
    }
    unsigned nan = 0;
    TALLY_UNROLL for (int u = 0; u < Units; ++u) nan |= unordered(acc[u].a, acc[u].b);
    if (nan != 0) [[unlikely]] {
      TALLY_UNROLL for (int u = 0; u < Units; ++u) {
        acc[u] = {canonical(acc[u].a), canonical(acc[u].b)};
      }
    }
  }
  template <int Units>
  [[gnu::always_inline]] static void finish(Acc (&acc)[Units], __m512i (&raw)[Units],
                                            std::uint32_t divisor) {
    settle(acc, divisor);
    TALLY_UNROLL for (int u = 0; u < Units; ++u) raw[u] = T::round(acc[u]);
  }
};

// Minimum and maximum need no conversion. As signed integers, with the magnitude of negative
// numbers inverted, halves are in order: -0 is below +0, and NaNs lie beyond the infinities. The
// accumulator keeps both ends, because either may show a NaN.
struct Ends {
  __m512i min, max;
};

template <class T, bool IsMax>
struct HalfEnd {
  using Vector = Vector512;
  using Acc = Ends;
  static constexpr int kElementBytes = 2;
  static constexpr int kUnits = 4;
  static constexpr int kMostSkewed = 0;
  static __m512i reorder(__m512i x) {  // its own inverse
    const __m512i sign = _mm512_srai_epi16(x, 15);
    return _mm512_xor_si512(x, _mm512_and_si512(sign, _mm512_set1_epi16(0x7fff)));
  }
  static Acc load(const std::byte* p) { return widen(Vector512::load(p)); }
  static Acc widen(__m512i raw) {
    const __m512i x = reorder(raw);
    return {x, x};
  }
  static Acc fold(Acc x, Acc y) {
    return {_mm512_min_epi16(x.min, y.min), _mm512_max_epi16(x.max, y.max)};
  }
  template <int Units>
  [[gnu::always_inline]] static void finish(Acc (&acc)[Units], __m512i (&raw)[Units],
                                            std::uint32_t /*divisor*/) {
    const __m512i top = _mm512_set1_epi16(T::kInfinity);
    const __m512i bottom = _mm512_set1_epi16(~T::kInfinity);
    TALLY_UNROLL for (int u = 0; u < Units; ++u) {
      const __mmask32 nan =
          _mm512_cmpgt_epi16_mask(acc[u].max, top) | _mm512_cmpgt_epi16_mask(bottom, acc[u].min);
      raw[u] = _mm512_mask_mov_epi16(reorder(IsMax ? acc[u].max : acc[u].min), nan,
                                     _mm512_set1_epi16(T::kNan));
    }
  }
};

SixteenDoubles f16_doubles(const std::byte* p) {
  return from_f32(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
SixteenDoubles bf16_doubles(const std::byte* p) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return from_f32(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16)));
}

template <class T>
using Min = HalfEnd<T, false>;
template <class T>
using Max = HalfEnd<T, true>;

}  // namespace

constinit const TypeKernels avx512_f16 =
    make_type<HalfSum<F16>, Min<F16>, Max<F16>>(&squares_of<2, f16_doubles>);
constinit const TypeKernels avx512_bf16 =
    make_type<HalfSum<Bf16>, Min<Bf16>, Max<Bf16>>(&squares_of<2, bf16_doubles>);

}  // namespace tally::summation
