// The specification against definitions of its own kind: exact arithmetic and exhaustive tables.
#include "summation/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "summation/reduce.h"

namespace tally::summation {
namespace {

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// By the definition of the format: sign, exponent, fraction.
double f16_value(unsigned half) {
  const int exponent = static_cast<int>((half >> 10U) & 0x1fU);
  const double fraction = (half & 0x3ffU) / 1024.0;
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  }
  return (half & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(F16, WidensEveryValue) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float wide = scalar::widen_f16(static_cast<std::uint16_t>(half));
    const double expected = f16_value(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide)) << half;
    } else {
      EXPECT_EQ(wide, expected) << half;
      EXPECT_EQ(std::signbit(wide), std::signbit(expected)) << half;
    }
  }
}

TEST(F16, RoundsEveryValueToItself) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float wide = scalar::widen_f16(static_cast<std::uint16_t>(half));
    EXPECT_EQ(scalar::round_f16(wide), std::isnan(wide) ? 0x7e00U : half);
  }
}

// Between any two adjacent values: just below the middle, the middle, just above.
TEST(F16, RoundsToNearestTiesToEven) {
  for (unsigned sign = 0; sign <= 0x8000U; sign += 0x8000U) {
    for (unsigned half = sign; half < sign + 0x7c00U; ++half) {
      const double low = f16_value(half);
      // The value next to the largest number is where infinity would stand: 65536.
      const double high =
          (half & 0x7fffU) == 0x7bffU ? std::copysign(65536.0, low) : f16_value(half + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      ASSERT_EQ(middle, (low + high) / 2);
      EXPECT_EQ(scalar::round_f16(middle), (half % 2 == 0) ? half : half + 1) << half;
      const float outward = std::copysign(std::numeric_limits<float>::infinity(), middle);
      EXPECT_EQ(scalar::round_f16(std::nextafter(middle, 0.0F)), half);
      EXPECT_EQ(scalar::round_f16(std::nextafter(middle, outward)), half + 1);
    }
  }
}

TEST(F16, Limits) {
  EXPECT_EQ(scalar::round_f16(65519.996F), 0x7bff);
  EXPECT_EQ(scalar::round_f16(65520.0F), 0x7c00);
  EXPECT_EQ(scalar::round_f16(-1e30F), 0xfc00);
  EXPECT_EQ(scalar::round_f16(0x1p-25F), 0x0000);
  EXPECT_EQ(scalar::round_f16(-0x1.000002p-25F), 0x8001);
  EXPECT_EQ(scalar::round_f16(from_bits(0x80000001)), 0x8000);
  EXPECT_EQ(scalar::round_f16(from_bits(0xffc12345)), 0x7e00);
}

TEST(Bf16, WidensAndRoundsEveryValue) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float wide = scalar::widen_bf16(static_cast<std::uint16_t>(half));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide), half << 16U);
    EXPECT_EQ(scalar::round_bf16(wide), std::isnan(wide) ? 0x7fc0U : half);
    if (std::isnan(wide) || std::isinf(wide)) continue;
    const std::uint32_t middle = (half << 16U) | 0x8000U;
    EXPECT_EQ(scalar::round_bf16(from_bits(middle)), half % 2 == 0 ? half : half + 1);
    EXPECT_EQ(scalar::round_bf16(from_bits(middle - 1)), half);
    EXPECT_EQ(scalar::round_bf16(from_bits(middle + 1)), half + 1);
  }
}

// One reduction by the scalar kernel.
template <class T>
std::vector<T> reduced(ElementType type, Operation operation,
                       const std::vector<std::vector<T>>& inputs, std::uint32_t divisor = 1,
                       std::vector<BlockStats>* stats = nullptr) {
  std::vector<Span> spans;
  for (const auto& input : inputs) {
    spans.push_back({reinterpret_cast<const std::byte*>(input.data()), input.size() * sizeof(T)});
  }
  std::vector<View> views;
  for (const Span& span : spans) views.emplace_back(&span, 1);
  std::vector<T> result(inputs[0].size());
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(result.data())};
  Reduction reduction;
  reduction.type = type;
  reduction.operation = operation;
  reduction.divisor = divisor;
  reduction.count = result.size();
  reduction.inputs = views;
  reduction.outputs = outputs;
  if (stats != nullptr) {
    stats->resize((result.size() + kStatsBlock - 1) / kStatsBlock);
    reduction.stats = *stats;
  }
  reduce(*kernels(Isa::kScalar), reduction);
  return result;
}

template <class T>
T reduced_one(ElementType type, Operation operation, const std::vector<T>& ranks,
              std::uint32_t divisor = 1) {
  std::vector<std::vector<T>> inputs;
  for (const T& value : ranks) inputs.push_back({value});
  return reduced(type, operation, inputs, divisor)[0];
}

std::uint32_t f32_bits(Operation operation, const std::vector<std::uint32_t>& ranks,
                       std::uint32_t divisor = 1) {
  return reduced_one(ElementType::kF32, operation, ranks, divisor);
}

TEST(Scalar, SumsInRankOrder) {
  const std::vector<float> ranks = {1.0F, 0x1p24F, -0x1p24F, 3.0F};
  EXPECT_EQ(reduced_one(ElementType::kF32, Operation::kSum, ranks), 3.0F);
  const std::vector<float> swapped = {0x1p24F, -0x1p24F, 1.0F, 3.0F};
  EXPECT_EQ(reduced_one(ElementType::kF32, Operation::kSum, swapped), 4.0F);
}

// Many ranks are folded in groups; numbers that add exactly show a rank left out or taken twice.
TEST(Scalar, EveryRankCountsOnce) {
  for (std::size_t width = 1; width <= kMaxInputs; width += width < 40 ? 1 : 123) {
    std::vector<float> ranks;
    for (std::size_t i = 0; i < width; ++i) ranks.push_back(static_cast<float>(i + 1));
    EXPECT_EQ(reduced_one(ElementType::kF32, Operation::kSum, ranks),
              static_cast<float>(width * (width + 1) / 2));
  }
}

// 2048 + 1 is a tie in f16 and would stay 2048 at every step; summed in f32 it is exact.
TEST(Scalar, HalvesRoundOnce) {
  std::vector<std::uint16_t> ranks = {scalar::round_f16(2048)};
  for (int i = 0; i < 100; ++i) ranks.push_back(scalar::round_f16(1));
  EXPECT_EQ(reduced_one(ElementType::kF16, Operation::kSum, ranks), scalar::round_f16(2148));
  std::vector<std::uint16_t> brains = {scalar::round_bf16(256)};
  for (int i = 0; i < 100; ++i) brains.push_back(scalar::round_bf16(1));
  EXPECT_EQ(reduced_one(ElementType::kBf16, Operation::kSum, brains), scalar::round_bf16(356));
  // Above the range of f16 on the way, within it at the end.
  const std::vector<std::uint16_t> high = {0x7bff, 0x7bff, 0xfbff};
  EXPECT_EQ(reduced_one(ElementType::kF16, Operation::kSum, high), 0x7bff);
  // An average divides before it rounds: the sum alone would overflow.
  EXPECT_EQ(reduced_one<std::uint16_t>(ElementType::kF16, Operation::kAverage, {0x7bff, 0x7bff}, 2),
            0x7bff);
}

TEST(Scalar, NanIsCanonicalAndZerosHaveSigns) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kNan = 0x7fc00000;
  constexpr std::uint32_t kMinusZero = 0x80000000;
  EXPECT_EQ(f32_bits(Operation::kSum, {kInfinity, 0xff800000}), kNan);
  EXPECT_EQ(f32_bits(Operation::kSum, {0xffc12345}), kNan);
  EXPECT_EQ(f32_bits(Operation::kSum, {0x7f800001, 0}), kNan);
  EXPECT_EQ(f32_bits(Operation::kSum, {kMinusZero, kMinusZero}), kMinusZero);
  EXPECT_EQ(f32_bits(Operation::kSum, {kMinusZero, 0}), 0U);
  EXPECT_EQ(f32_bits(Operation::kSum, {1, 1}), 2U);  // subnormals
  for (const Operation operation : {Operation::kMin, Operation::kMax}) {
    EXPECT_EQ(f32_bits(operation, {0x3f800000, 0xff812345}), kNan);
    EXPECT_EQ(f32_bits(operation, {0xff812345, 0x3f800000}), kNan);
    EXPECT_EQ(f32_bits(operation, {kMinusZero, 0}), operation == Operation::kMin ? kMinusZero : 0U);
    EXPECT_EQ(f32_bits(operation, {0, kMinusZero}), operation == Operation::kMin ? kMinusZero : 0U);
  }
  const std::vector<std::uint64_t> doubles = {0xfff8000000000001};
  EXPECT_EQ(reduced_one(ElementType::kF64, Operation::kSum, doubles), 0x7ff8000000000000U);
}

TEST(Scalar, IntegersWrapAndAveragesTruncate) {
  using I32 = std::vector<std::int32_t>;
  const auto i32 = [](Operation operation, const I32& ranks, std::uint32_t divisor = 1) {
    return reduced_one(ElementType::kI32, operation, ranks, divisor);
  };
  constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(i32(Operation::kSum, {kLowest, -1}), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(i32(Operation::kAverage, {-7}, 2), -3);
  EXPECT_EQ(i32(Operation::kAverage, {kLowest}, 1), kLowest);
  EXPECT_EQ(i32(Operation::kAverage, {kLowest}, 0xffffffffU), 0);
  EXPECT_EQ(i32(Operation::kMin, {3, kLowest, 5}), kLowest);
  const std::vector<std::int8_t> bytes = {100, 100};
  EXPECT_EQ(reduced_one(ElementType::kI8, Operation::kSum, bytes), -56);
  EXPECT_EQ(reduced_one(ElementType::kI8, Operation::kAverage, bytes, 2), -28);
  EXPECT_EQ(reduced_one(ElementType::kI8, Operation::kAverage, bytes, 1024), 0);
  const std::vector<std::uint8_t> unsigned_bytes = {200, 100};
  EXPECT_EQ(reduced_one(ElementType::kU8, Operation::kSum, unsigned_bytes), 44);
  EXPECT_EQ(reduced_one(ElementType::kU8, Operation::kMax, unsigned_bytes), 200);
  constexpr std::int64_t kLong = std::numeric_limits<std::int64_t>::min();
  const std::vector<std::int64_t> longs = {kLong, kLong + 5};
  EXPECT_EQ(reduced_one(ElementType::kI64, Operation::kSum, longs), 5);
  EXPECT_EQ(reduced_one<std::int64_t>(ElementType::kI64, Operation::kAverage, {kLong}, 3),
            kLong / 3);
}

// Every 8-bit value by every divisor up to beyond its range.
TEST(Scalar, AveragesOfBytesByDefinition) {
  for (int value = -128; value < 128; ++value) {
    for (std::uint32_t divisor = 1; divisor < 300; ++divisor) {
      const std::vector<std::int8_t> rank = {static_cast<std::int8_t>(value)};
      EXPECT_EQ(reduced_one(ElementType::kI8, Operation::kAverage, rank, divisor),
                value / static_cast<int>(divisor));
    }
  }
}

TEST(Scalar, StatisticsOfTheStoredResult) {
  // Two blocks; exact in f64 whatever the order.
  std::vector<std::uint16_t> input(kStatsBlock + 3, scalar::round_f16(3));
  input[5] = 0x7c00;
  input[kStatsBlock + 1] = 0xfe01;
  input[kStatsBlock + 2] = 0x7bff;
  std::vector<BlockStats> stats;
  reduced<std::uint16_t>(ElementType::kF16, Operation::kSum, {input, input}, 1, &stats);
  ASSERT_EQ(stats.size(), 2U);
  EXPECT_EQ(stats[0].nonfinite, 1U);
  EXPECT_EQ(stats[0].sum_of_squares, 36.0 * (kStatsBlock - 1));
  EXPECT_EQ(stats[1].nonfinite, 2U);  // a NaN, and what overflowed when it was stored
  EXPECT_EQ(stats[1].sum_of_squares, 36.0);
}

// The order of additions is fixed: 16 lanes, then a tree.
TEST(Scalar, StatisticsHaveOneOrder) {
  std::vector<double> input(1000);
  double lanes[16] = {};
  for (std::size_t i = 0; i < input.size(); ++i) {
    input[i] = std::sqrt(static_cast<double>(i + 1) / 3);
    lanes[i % 16] += input[i] * input[i];
  }
  for (std::size_t width = 8; width != 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  std::vector<BlockStats> stats;
  reduced<double>(ElementType::kF64, Operation::kSum, {input}, 1, &stats);
  EXPECT_EQ(stats[0].sum_of_squares, lanes[0]);
}

TEST(Types, NamesAreParsed) {
  for (const ElementTypeInfo& info : kElementTypes) {
    EXPECT_EQ(parse_element_type(info.name), info.type);
    EXPECT_EQ(name(info.type), info.name);
  }
  EXPECT_EQ(parse_operation("avg"), Operation::kAverage);
  EXPECT_EQ(parse_element_type("f8"), std::nullopt);
  EXPECT_EQ(parse_operation(""), std::nullopt);
}

}  // namespace
}  // namespace tally::summation
