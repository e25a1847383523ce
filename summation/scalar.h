// The specification: it defines what every kernel computes, one element at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "summation/codes.h"

namespace tally::summation::scalar {

// Exact, because every f16 is an f32, subnormals included.
inline float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23U) | (mantissa << 13U));
}

inline float widen_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

// Rounds to nearest, ties to even. Magnitudes from 65520 on become infinity. NaN becomes the
// canonical NaN.
inline std::uint16_t round_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7f800000U) return 0x7e00;
  if (magnitude >= 0x47800000U) {  // 65536 or more
    rounded = 0x7c00;
  } else if (magnitude >= 0x38800000U) {  // normal in f16; a carry may reach the exponent
    const std::uint32_t rebased = magnitude - ((127U - 15U) << 23U);
    rounded = (rebased + 0xfffU + ((rebased >> 13U) & 1U)) >> 13U;
  } else if (magnitude >= 0x33000000U) {  // subnormal in f16, or rounds to its smallest value
    const std::uint32_t shift = 126U - (magnitude >> 23U);
    const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    const std::uint32_t half = 1U << (shift - 1U);
    rounded = (mantissa + half - 1U + ((mantissa >> shift) & 1U)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

// Rounds to nearest, ties to even. NaN becomes the canonical NaN.
inline std::uint16_t round_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

template <class T>
T canonical(T value) {
  // quiet_NaN() is 0x7fc00000 or 0x7ff8000000000000: sign 0, only the top mantissa bit.
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

// An element type: the stored type, the type in which it is folded, and the conversions between
// them.
template <ElementType Type>
struct Element;

template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static Wide widen(Stored value) { return value; }
  static Stored round(Wide value) {
    if constexpr (std::is_floating_point_v<T>) return canonical(value);
    return value;
  }
};

struct Half {
  using Stored = std::uint16_t;
  using Wide = float;
};

// clang-format off
template <> struct Element<ElementType::kF32> : Plain<float> {};
template <> struct Element<ElementType::kF64> : Plain<double> {};
template <> struct Element<ElementType::kI8> : Plain<std::int8_t> {};
template <> struct Element<ElementType::kU8> : Plain<std::uint8_t> {};
template <> struct Element<ElementType::kI32> : Plain<std::int32_t> {};
template <> struct Element<ElementType::kI64> : Plain<std::int64_t> {};
template <> struct Element<ElementType::kF16> : Half {
  static Wide widen(Stored value) { return widen_f16(value); }
  static Stored round(Wide value) { return round_f16(value); }
};
template <> struct Element<ElementType::kBf16> : Half {
  static Wide widen(Stored value) { return widen_bf16(value); }
  static Stored round(Wide value) { return round_bf16(value); }
};
// clang-format on

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // Unsigned 64-bit arithmetic wraps for every type that T is promoted to.
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class T>
T divide(T sum, std::uint32_t divisor) {
  if constexpr (std::is_integral_v<T>) {
    // Divides in 64 bits, because the divisor may exceed T. The divisor is never -1, so nothing
    // overflows.
    return static_cast<T>(static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(divisor));
  } else {
    return sum / static_cast<T>(divisor);
  }
}

template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

// An operation: the fold from left to right over the ranks, and the last step at the end.
template <Operation Op>
struct Fold;

struct KeepAtEnd {
  template <class T>
  static T end(T value, std::uint32_t /*divisor*/) {
    return value;
  }
};

// clang-format off
template <> struct Fold<Operation::kSum> : KeepAtEnd {
  template <class T> static T step(T a, T b) { return add(a, b); }
};
template <> struct Fold<Operation::kAverage> {
  template <class T> static T step(T a, T b) { return add(a, b); }
  template <class T> static T end(T sum, std::uint32_t divisor) { return divide(sum, divisor); }
};
template <> struct Fold<Operation::kMin> : KeepAtEnd {
  template <class T> static T step(T a, T b) { return minimum(a, b); }
};
template <> struct Fold<Operation::kMax> : KeepAtEnd {
  template <class T> static T step(T a, T b) { return maximum(a, b); }
};
// clang-format on

}  // namespace tally::summation::scalar
