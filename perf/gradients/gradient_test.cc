#include "perf/gradients/gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "perf/gradients/gradient_kernels.h"

namespace tally::perf {
namespace {

template <typename T>
std::vector<T> made(const GradientSpec& spec, std::uint32_t rank, std::uint64_t first,
                    std::uint64_t count, std::uint32_t stream = 0) {
  std::vector<T> values(count);
  fill_gradient(spec, rank, stream, first, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

template <typename T>
std::vector<T> expected(const GradientSpec& spec, const Expectation& expectation,
                        std::uint64_t count) {
  std::vector<T> values(count);
  expected_result(spec, expectation, 0, 0, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// What one rank's f16 or bf16 is worth, by the definition of the format.
double value_of(ElementType type, std::uint16_t bits) {
  if (type == ElementType::kBf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = (bits >> 10) & 31;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return bits & 0x3ff ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(bits & 0x3ff, -24);
  return sign * std::ldexp((bits & 0x3ff) + 1024, exponent - 25);
}

// The nearest of all 65536 values, ties to the even one, by search: slow and obviously right.
std::uint16_t nearest(ElementType type, double value) {
  const std::uint16_t infinity = type == ElementType::kF16 ? 0x7c00 : 0x7f80;
  if (std::isnan(value)) return type == ElementType::kF16 ? 0x7e00 : 0x7fc0;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(type, middle) <= magnitude ? low : high) = middle;
  }
  // The gap to infinity is as wide as if the exponent range went on.
  const double above =
      high == infinity ? std::ldexp(1, type == ElementType::kF16 ? 16 : 128) : value_of(type, high);
  const double to_low = magnitude - value_of(type, low);
  const double to_high = above - magnitude;
  const bool up = to_high < to_low || (to_high == to_low && low % 2 == 1);
  return sign | (std::isinf(magnitude) || up ? high : low);
}

constexpr std::uint64_t kCount = 20'000;

TEST(Gradient, IsAFunctionOfThePosition) {
  const GradientSpec spec{.type = ElementType::kF32, .specials = Specials::kFinite};
  const auto whole = made<std::uint32_t>(spec, 1, 0, kCount);
  for (const std::uint64_t first : {1ull, 1023ull, 1024ull, 5000ull}) {
    const auto piece = made<std::uint32_t>(spec, 1, first, 3000);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<long>(first)));
  }
  EXPECT_NE(whole, made<std::uint32_t>(spec, 2, 0, kCount));
  EXPECT_NE(whole, made<std::uint32_t>(spec, 1, 0, kCount, 1));
  GradientSpec later = spec;
  later.round = 1;
  EXPECT_NE(whole, made<std::uint32_t>(later, 1, 0, kCount));
  // Beyond 2^32 elements the numbers do not begin anew.
  EXPECT_NE(made<std::uint32_t>(spec, 1, 0, 64), made<std::uint32_t>(spec, 1, 1ull << 32, 64));
}

TEST(Gradient, ValuesLookLikeGradients) {
  const auto plain = made<float>(GradientSpec{}, 0, 0, kCount);
  int negative = 0;
  for (const float value : plain) {
    EXPECT_TRUE(std::isnormal(value));
    EXPECT_GE(std::fabs(value), 0x1p-21f);
    EXPECT_LT(std::fabs(value), 0x1p-5f);
    negative += value < 0;
  }
  EXPECT_NEAR(negative, kCount / 2, kCount / 20);
}

TEST(Gradient, SpecialsStandAtTheSamePlacesEverywhere) {
  const GradientSpec spec{.type = ElementType::kF32, .specials = Specials::kAll};
  std::vector<std::vector<int>> classes;
  for (const std::uint32_t rank : {0u, 1u}) {
    classes.emplace_back();
    for (const float value : made<float>(spec, rank, 0, kCount)) {
      classes.back().push_back(std::fpclassify(value));
    }
  }
  EXPECT_EQ(classes[0], classes[1]);
  const auto count = [&](int kind) {
    return std::count(classes[0].begin(), classes[0].end(), kind);
  };
  EXPECT_NEAR(static_cast<double>(count(FP_SUBNORMAL)), kCount / 64, 2);
  EXPECT_NEAR(static_cast<double>(count(FP_ZERO)), kCount / 64, 2);
  EXPECT_NEAR(static_cast<double>(count(FP_INFINITE)), kCount / 4096, 1);
  EXPECT_NEAR(static_cast<double>(count(FP_NAN)), kCount / 4096, 1);
}

// What trees rely on: the sum has the same bits whatever is added first, and partial sums, which
// travel in the type of the elements, too.
TEST(Gradient, IntegersHaveOneSumInAnyOrder) {
  GradientSpec spec{.type = ElementType::kBf16, .integers = true};
  std::vector<std::vector<std::uint16_t>> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    ranks.push_back(made<std::uint16_t>(spec, rank, 0, kCount));
  }
  const auto wanted = expected<std::uint16_t>(spec, {.ranks = 8}, kCount);
  double least = 0, most = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    std::uint16_t back = ranks[7][i];
    for (std::size_t rank = 7; rank-- > 0;) {
      const double value = value_of(spec.type, ranks[rank][i]);
      least = std::min(least, value);
      most = std::max(most, value);
      back = nearest(spec.type, value_of(spec.type, back) + value);
    }
    ASSERT_EQ(back, wanted[i]) << i;
  }
  EXPECT_EQ(least, -32);
  EXPECT_EQ(most, 31);
  // The same numbers in every type.
  spec.type = ElementType::kF32;
  const auto floats = made<float>(spec, 3, 0, kCount);
  spec.type = ElementType::kI32;
  const auto numbers = made<std::int32_t>(spec, 3, 0, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(floats[i], static_cast<float>(numbers[i]));
    ASSERT_EQ(floats[i], value_of(ElementType::kBf16, ranks[3][i]));
  }
}

// Every instruction set makes the same bits.
TEST(Gradient, KernelsAgree) {
  const auto check = [](const GradientKernels& kernels, bool integers) {
    StreamState streams[3];
    for (std::uint32_t i = 0; i < 3; ++i) {
      streams[i] = StreamState{i * 77 + 1, 5, 0, 1, 2, 3, integers};
    }
    for (const auto& info : kElementTypes) {
      for (const auto operation :
           {Operation::kSum, Operation::kAverage, Operation::kMin, Operation::kMax}) {
        const ExpectedBlock block{streams, 3, operation, 3, false, 4090, kGradientBlock};
        alignas(64) std::byte want[kGradientBlock * 8];
        alignas(64) std::byte got[kGradientBlock * 8];
        baseline::kernel_table.expect(info.type, block, want);
        kernels.expect(info.type, block, got);
        EXPECT_EQ(std::memcmp(want, got, kGradientBlock * info.bytes), 0) << info.name;
      }
    }
  };
#if defined(__x86_64__)
  for (const bool integers : {false, true}) {
    if (__builtin_cpu_supports("avx2")) check(avx2::kernel_table, integers);
    if (__builtin_cpu_supports("avx512f")) check(avx512::kernel_table, integers);
  }
#endif
  check(gradient_kernels(), false);
}

template <typename T>
T naive(Operation operation, const std::vector<T>& values) {
  T total = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    const T next = values[i];
    if (operation == Operation::kSum || operation == Operation::kAverage) {
      total = total + next;
    } else if (std::isnan(total) || std::isnan(next)) {
      total = std::numeric_limits<T>::quiet_NaN();
    } else if (operation == Operation::kMin) {
      total = next < total || (next == total && std::signbit(next)) ? next : total;
    } else {
      total = next > total || (next == total && !std::signbit(next)) ? next : total;
    }
  }
  if (operation == Operation::kAverage) total = total / static_cast<T>(values.size());
  return std::isnan(total) ? std::numeric_limits<T>::quiet_NaN() : total;
}

constexpr Operation kAll[] = {Operation::kSum, Operation::kAverage, Operation::kMin,
                              Operation::kMax};

template <typename T, typename Bits>
void check_float(ElementType type) {
  const GradientSpec spec{.type = type, .specials = Specials::kAll};
  for (const std::uint32_t ranks : {1u, 2u, 5u}) {
    std::vector<std::vector<T>> inputs;
    for (std::uint32_t r = 0; r < ranks; ++r) inputs.push_back(made<T>(spec, r, 0, kCount));
    for (const Operation operation : kAll) {
      const auto found = expected<T>(spec, {operation, 0, ranks}, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        std::vector<T> values;
        for (const auto& input : inputs) values.push_back(input[i]);
        ASSERT_EQ(std::bit_cast<Bits>(naive(operation, values)), std::bit_cast<Bits>(found[i]))
            << i << ' ' << name(operation) << " of " << ranks;
      }
    }
  }
}

TEST(Expected, F32IsNaiveArithmetic) {
  check_float<float, std::uint32_t>(ElementType::kF32);
}
TEST(Expected, F64IsNaiveArithmetic) {
  check_float<double, std::uint64_t>(ElementType::kF64);
}

TEST(Expected, HalvesAreSummedWideAndRoundedOnce) {
  for (const ElementType type : {ElementType::kF16, ElementType::kBf16}) {
    const GradientSpec spec{.type = type, .specials = Specials::kAll};
    for (const std::uint32_t ranks : {1u, 3u}) {
      std::vector<std::vector<std::uint16_t>> inputs;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        inputs.push_back(made<std::uint16_t>(spec, r, 0, kCount));
      }
      for (const Operation operation : kAll) {
        const auto found = expected<std::uint16_t>(spec, {operation, 0, ranks}, kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          std::vector<float> values;
          for (const auto& input : inputs) {
            values.push_back(static_cast<float>(value_of(type, input[i])));
          }
          ASSERT_EQ(nearest(type, naive(operation, values)), found[i])
              << i << ' ' << name(operation) << ' ' << name(type);
        }
      }
    }
  }
}

template <typename T>
void check_int(ElementType type) {
  const GradientSpec spec{.type = type, .specials = Specials::kAll};
  constexpr std::uint32_t kRanks = 5;
  std::vector<std::vector<T>> inputs;
  for (std::uint32_t r = 0; r < kRanks; ++r) inputs.push_back(made<T>(spec, r, 0, kCount));
  for (const Operation operation : kAll) {
    const auto found = expected<T>(spec, {operation, 0, kRanks}, kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::uint64_t sum = 0;
      T least = inputs[0][i];
      T most = least;
      for (const auto& input : inputs) {
        sum += static_cast<std::uint64_t>(input[i]);
        least = std::min(least, input[i]);
        most = std::max(most, input[i]);
      }
      const T wrapped = static_cast<T>(sum);
      const T want = operation == Operation::kSum       ? wrapped
                     : operation == Operation::kAverage ? static_cast<T>(wrapped / T{kRanks})
                     : operation == Operation::kMin     ? least
                                                        : most;
      ASSERT_EQ(want, found[i]) << i << ' ' << name(operation) << ' ' << name(type);
    }
  }
}

TEST(Expected, IntegersWrap) {
  check_int<std::int8_t>(ElementType::kI8);
  check_int<std::uint8_t>(ElementType::kU8);
  check_int<std::int32_t>(ElementType::kI32);
  check_int<std::int64_t>(ElementType::kI64);
}

TEST(Expected, MovedBitsArriveUnchanged) {
  const GradientSpec spec{.type = ElementType::kF32, .specials = Specials::kAll};
  const Expectation from_two{.first_rank = 2, .ranks = 1, .moves_only = true};
  EXPECT_EQ(expected<std::uint32_t>(spec, from_two, kCount),
            made<std::uint32_t>(spec, 2, 0, kCount));
}

TEST(Compare, CountsAndNamesWrongElements) {
  for (const auto& info : kElementTypes) {
    const GradientSpec spec{.type = info.type, .specials = Specials::kFinite};
    const Expectation expectation{.ranks = 3};
    std::vector<std::byte> bytes(kCount * info.bytes + 1);
    std::byte* result = bytes.data() + 1;  // at an odd address
    expected_result(spec, expectation, 7, 100, kCount, result);
    EXPECT_EQ(compare_result(spec, expectation, 7, 100, kCount, result).wrong, 0u);
    for (const std::uint64_t at : {std::uint64_t{900}, std::uint64_t{901}, kCount - 1}) {
      result[at * info.bytes] ^= std::byte{1};
    }
    const Mismatch mismatch = compare_result(spec, expectation, 7, 100, kCount, result);
    EXPECT_EQ(mismatch.wrong, 3u) << info.name;
    EXPECT_EQ(mismatch.first, 1000u);
    EXPECT_EQ(mismatch.expected_bits ^ mismatch.found_bits, 1u);
  }
}

TEST(Stats, SquaresOfFiniteElements) {
  const std::vector<float> values = {3, -4, INFINITY, NAN, 0};
  const auto stats = result_stats(ElementType::kF32,
                                  reinterpret_cast<const std::byte*>(values.data()), values.size());
  EXPECT_DOUBLE_EQ(stats.sum_of_squares, 25);
  EXPECT_EQ(stats.nonfinite, 2u);
  const std::vector<std::int8_t> ints = {-128, 2};
  EXPECT_DOUBLE_EQ(
      result_stats(ElementType::kI8, reinterpret_cast<const std::byte*>(ints.data()), 2)
          .sum_of_squares,
      16388);
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x7c00, 0x0001};
  EXPECT_DOUBLE_EQ(
      result_stats(ElementType::kF16, reinterpret_cast<const std::byte*>(halves.data()), 4)
          .sum_of_squares,
      5 + 0x1p-48);
}

}  // namespace
}  // namespace tally::perf
