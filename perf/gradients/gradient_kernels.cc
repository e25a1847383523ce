// Compiled once per instruction set, with TALLY_PERF_ISA naming the namespace. Everything here is
// in that namespace, and nothing here calls a template or inline function from outside. The linker
// keeps one copy of such a function, and this processor may be unable to run that copy.
//
// The arithmetic follows the rules in client/include/tally/tally.h and summation/reduce.h, plainly.
// It shares nothing with the kernels that it judges.
#include "perf/gradients/gradient_kernels.h"

namespace tally::perf::TALLY_PERF_ISA {
namespace {

using U8 = std::uint8_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

// -- elements out of a hash ----------------------------------------------------------------------

// "lowbias32": two multiplications, every input bit reaches every output bit.
inline U32 mix(U32 x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

inline U32 second_word(U32 hash) {
  hash *= 0x9E3779B1u;
  return hash ^ (hash >> 15);
}

// A gradient-like value: either sign, magnitudes from 2^-21 to 2^-5. `place` is the position among
// the special values.
inline U32 f32_bits(U32 hash, U32 place, const StreamState& stream) {
  U32 magnitude = ((106u + ((hash >> 23) & 15u)) << 23) | (hash & 0x7fffffu);
  magnitude = (place & 63u) == stream.subnormal_at ? hash & 0x7fffffu : magnitude;
  magnitude = (place & 63u) == stream.zero_at ? 0u : magnitude;
  magnitude = (place & 4095u) == stream.infinity_at ? 0x7f800000u : magnitude;
  // The NaN has a payload that sums must drop and moves must keep.
  magnitude = (place & 4095u) == stream.nan_at ? 0x7f810000u | (hash & 0x7fffffu) : magnitude;
  return (hash & 0x80000000u) | magnitude;
}

inline U16 f16_bits(U32 hash, U32 place, const StreamState& stream) {
  U32 magnitude = ((1u + ((hash >> 23) & 15u)) << 10) | (hash & 0x3ffu);
  magnitude = (place & 63u) == stream.subnormal_at ? hash & 0x3ffu : magnitude;
  magnitude = (place & 63u) == stream.zero_at ? 0u : magnitude;
  magnitude = (place & 4095u) == stream.infinity_at ? 0x7c00u : magnitude;
  magnitude = (place & 4095u) == stream.nan_at ? 0x7c01u | (hash & 0x3ffu) : magnitude;
  return static_cast<U16>(((hash >> 16) & 0x8000u) | magnitude);
}

inline U64 f64_bits(U32 hash, U32 place, const StreamState& stream) {
  const U64 fraction = (U64{hash & 0xfffffu} << 32) | second_word(hash);
  U64 magnitude = (U64{1002u + ((hash >> 23) & 15u)} << 52) | fraction;
  magnitude = (place & 63u) == stream.subnormal_at ? fraction : magnitude;
  magnitude = (place & 63u) == stream.zero_at ? 0u : magnitude;
  magnitude = (place & 4095u) == stream.infinity_at ? 0x7ff0000000000000u : magnitude;
  magnitude = (place & 4095u) == stream.nan_at ? 0x7ff0000100000000u | fraction : magnitude;
  return (U64{hash & 0x80000000u} << 32) | magnitude;
}

// From -32 to 31.
inline int small_integer(U32 hash) {
  return static_cast<int>(hash >> 26) - 32;
}

// -- conversions, without instructions that only some processors have ---------------------------

inline float f16_to_f32(U16 half) {
  const U32 shifted = (half & 0x7fffu) << 13;
  // A multiplication moves the exponent and makes subnormals normal, exactly.
  const float scaled = __builtin_bit_cast(float, shifted) * 0x1p112f;
  U32 bits = __builtin_bit_cast(U32, scaled);
  bits = shifted >= 0x0f800000u ? shifted | 0x7f800000u : bits;
  return __builtin_bit_cast(float, bits | ((half & 0x8000u) << 16));
}

inline U16 f32_to_f16(float value) {
  const U32 bits = __builtin_bit_cast(U32, value);
  const U32 magnitude = bits & 0x7fffffffu;
  const U32 normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // The addition's own rounding puts a subnormal's bits at the end of the fraction.
  const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
  const U32 subnormal = __builtin_bit_cast(U32, shifted) - 0x3f000000u;
  U32 half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half |= (bits >> 16) & 0x8000u;
  return static_cast<U16>(magnitude > 0x7f800000u ? 0x7e00u : half);
}

inline float bf16_to_f32(U16 value) {
  return __builtin_bit_cast(float, U32{value} << 16);
}

inline U16 f32_to_bf16(float value) {
  const U32 bits = __builtin_bit_cast(U32, value);
  const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<U16>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

inline float canonical(float x) {
  return x != x ? __builtin_bit_cast(float, 0x7fc00000u) : x;
}
inline double canonical(double x) {
  return x != x ? __builtin_bit_cast(double, U64{0x7ff8000000000000u}) : x;
}

// -- arithmetic of the wide forms ----------------------------------------------------------------

// Equal values differ at most in the sign of zero. -0 is less than +0, so "and" gives the greater
// bits.
template <typename Float, typename Bits>
inline Float float_max(Float a, Float b) {
  const Bits same = __builtin_bit_cast(Bits, a) & __builtin_bit_cast(Bits, b);
  Float greater = a > b ? a : b;
  greater = a == b ? __builtin_bit_cast(Float, same) : greater;
  greater = a != a ? a : greater;
  return b != b ? b : greater;
}

template <typename Float, typename Bits>
inline Float float_min(Float a, Float b) {
  const Bits same = __builtin_bit_cast(Bits, a) | __builtin_bit_cast(Bits, b);
  Float less = a < b ? a : b;
  less = a == b ? __builtin_bit_cast(Float, same) : less;
  less = a != a ? a : less;
  return b != b ? b : less;
}

template <typename Float, typename Bits>
struct FloatMath {
  using Wide = Float;
  static Wide add(Wide a, Wide b) { return a + b; }
  static Wide max(Wide a, Wide b) { return float_max<Float, Bits>(a, b); }
  static Wide min(Wide a, Wide b) { return float_min<Float, Bits>(a, b); }
  static Wide divide(Wide sum, U32 divisor) { return sum / static_cast<Float>(divisor); }
};

template <typename Int, typename Bits>
struct IntMath {
  using Wide = Int;
  using Stored = Int;
  static Wide add(Wide a, Wide b) {
    return static_cast<Int>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
  }
  static Wide max(Wide a, Wide b) { return a > b ? a : b; }
  static Wide min(Wide a, Wide b) { return a < b ? a : b; }
  static Wide divide(Wide sum, U32 divisor) {
    return static_cast<Int>(static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(divisor));
  }
  static Wide widen(Stored value) { return value; }
  static Stored narrow(Wide value) { return value; }
  static Stored make(U32 hash, U32, const StreamState&) { return static_cast<Int>(hash); }
  static Stored small(U32 hash) { return static_cast<Int>(small_integer(hash)); }
};

struct F32 : FloatMath<float, U32> {
  using Stored = float;
  static float small(U32 hash) { return static_cast<float>(small_integer(hash)); }
  static float widen(float value) { return value; }
  static float narrow(float value) { return canonical(value); }
  static float make(U32 hash, U32 place, const StreamState& stream) {
    return __builtin_bit_cast(float, f32_bits(hash, place, stream));
  }
};
struct F64 : FloatMath<double, U64> {
  using Stored = double;
  static double small(U32 hash) { return static_cast<double>(small_integer(hash)); }
  static double widen(double value) { return value; }
  static double narrow(double value) { return canonical(value); }
  static double make(U32 hash, U32 place, const StreamState& stream) {
    return __builtin_bit_cast(double, f64_bits(hash, place, stream));
  }
};
struct F16 : FloatMath<float, U32> {
  using Stored = U16;
  static U16 small(U32 hash) { return f32_to_f16(F32::small(hash)); }
  static float widen(U16 value) { return f16_to_f32(value); }
  static U16 narrow(float value) { return f32_to_f16(value); }
  static U16 make(U32 hash, U32 place, const StreamState& stream) {
    return f16_bits(hash, place, stream);
  }
};
struct Bf16 : FloatMath<float, U32> {
  using Stored = U16;
  static U16 small(U32 hash) { return f32_to_bf16(F32::small(hash)); }
  static float widen(U16 value) { return bf16_to_f32(value); }
  static U16 narrow(float value) { return f32_to_bf16(value); }
  static U16 make(U32 hash, U32 place, const StreamState& stream) {
    return static_cast<U16>(f32_bits(hash, place, stream) >> 16);
  }
};
struct I64 : IntMath<std::int64_t, U64> {
  static std::int64_t make(U32 hash, U32, const StreamState&) {
    return static_cast<std::int64_t>((U64{hash} << 32) | second_word(hash));
  }
};

// -- loops ---------------------------------------------------------------------------------------

template <typename Type>
void fill_block(const StreamState& state, U32 first, std::size_t count,
                typename Type::Stored* out) {
  const StreamState stream = state;  // a copy that the stores cannot change
  for (std::size_t i = 0; stream.integers && i < count; ++i) {
    out[i] = Type::small(mix(first + static_cast<U32>(i) + stream.key));
  }
  if (stream.integers) return;
  for (std::size_t i = 0; i < count; ++i) {
    const U32 position = first + static_cast<U32>(i);
    out[i] = Type::make(mix(position + stream.key), position + stream.salt, stream);
  }
}

template <typename Type, typename Combine>
void fold(const ExpectedBlock& block, typename Type::Wide* total, Combine combine) {
  typename Type::Stored input[kGradientBlock];
  fill_block<Type>(block.contributors[0], block.first, block.count, input);
  for (std::size_t i = 0; i < block.count; ++i) total[i] = Type::widen(input[i]);
  for (std::size_t rank = 1; rank < block.ranks; ++rank) {
    fill_block<Type>(block.contributors[rank], block.first, block.count, input);
    for (std::size_t i = 0; i < block.count; ++i) {
      total[i] = combine(total[i], Type::widen(input[i]));
    }
  }
}

template <typename Type>
void expect_block(const ExpectedBlock& block, typename Type::Stored* out) {
  using Wide = typename Type::Wide;
  if (block.moves_only) return fill_block<Type>(*block.contributors, block.first, block.count, out);
  Wide total[kGradientBlock];
  switch (block.operation) {
    case Operation::kSum:
    case Operation::kAverage:
      fold<Type>(block, total, [](Wide a, Wide b) { return Type::add(a, b); });
      break;
    case Operation::kMin:
      fold<Type>(block, total, [](Wide a, Wide b) { return Type::min(a, b); });
      break;
    case Operation::kMax:
      fold<Type>(block, total, [](Wide a, Wide b) { return Type::max(a, b); });
      break;
  }
  if (block.operation == Operation::kAverage) {
    for (std::size_t i = 0; i < block.count; ++i) total[i] = Type::divide(total[i], block.divisor);
  }
  for (std::size_t i = 0; i < block.count; ++i) out[i] = Type::narrow(total[i]);
}

// Calls action with the traits of the type.
template <typename Action>
void with_type(ElementType type, Action action) {
  switch (type) {
    case ElementType::kF32:
      return action(F32{});
    case ElementType::kF64:
      return action(F64{});
    case ElementType::kF16:
      return action(F16{});
    case ElementType::kBf16:
      return action(Bf16{});
    case ElementType::kI8:
      return action(IntMath<std::int8_t, U8>{});
    case ElementType::kU8:
      return action(IntMath<U8, U8>{});
    case ElementType::kI32:
      return action(IntMath<std::int32_t, U32>{});
    case ElementType::kI64:
      return action(I64{});
  }
}

void fill(ElementType type, const StreamState& stream, U32 first, std::size_t count, void* out) {
  with_type(type, [&](auto traits) {
    using Type = decltype(traits);
    fill_block<Type>(stream, first, count, static_cast<typename Type::Stored*>(out));
  });
}

void expect(ElementType type, const ExpectedBlock& block, void* out) {
  with_type(type, [&](auto traits) {
    using Type = decltype(traits);
    expect_block<Type>(block, static_cast<typename Type::Stored*>(out));
  });
}

}  // namespace

const GradientKernels kernel_table = {fill, expect};

}  // namespace tally::perf::TALLY_PERF_ISA
