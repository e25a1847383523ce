// Every instruction set against the scalar kernel, on the same vectors.
#include "summation/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "summation/float_mode.h"
#include "summation/test_vectors.h"

namespace tally::summation {
namespace {

using test::Buffer;
using test::Flavour;
using test::for_each_kernel;
using test::Inputs;
using test::Random;
using test::seed;

struct Case {
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::size_t width = 1;
  std::size_t count = 1;
  Flavour flavour = Flavour::kNumbers;
  std::uint32_t divisor = 1;
  std::size_t spans = 1;      // of every input
  std::size_t alignment = 1;  // of inputs and outputs
  std::size_t outputs = 1;
  bool in_place = false;  // output 0 is an input
  bool stream = false;
  bool stats = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name(c.type) << ' ' << name(c.operation) << " W=" << c.width << " n=" << c.count
             << " flavour=" << static_cast<int>(c.flavour) << " divisor=" << c.divisor
             << " spans=" << c.spans << " alignment=" << c.alignment << " outputs=" << c.outputs
             << " in_place=" << c.in_place << " stream=" << c.stream << " stats=" << c.stats
             << " TALLY_TEST_SEED=" << seed();
}

struct Result {
  std::vector<std::byte> bytes;
  std::vector<BlockStats> stats;
};

Result run(const Kernels& kernels, const Case& c, const Inputs& inputs, std::uint64_t seed) {
  Random random(seed);
  const std::size_t bytes = c.count * element_bytes(c.type);
  std::vector<Buffer> outputs;
  std::vector<std::byte*> pointers;
  for (std::size_t o = 0; o < c.outputs; ++o) {
    outputs.emplace_back(bytes, test::random_shift(random, c.alignment));
    pointers.push_back(outputs.back().data());
  }
  std::vector<View> views(inputs.views().begin(), inputs.views().end());
  const Span own = {pointers[0], bytes};
  if (c.in_place) {
    const std::size_t rank = random() % c.width;
    inputs.copy(rank, pointers[0]);
    views[rank] = View(&own, 1);
  }
  Result result;
  if (c.stats) result.stats.resize((c.count + kStatsBlock - 1) / kStatsBlock, {-1, 99});
  reduce(kernels, {.type = c.type,
                   .operation = c.operation,
                   .divisor = c.divisor,
                   .count = c.count,
                   .inputs = views,
                   .outputs = pointers,
                   .stats = result.stats,
                   .stream_outputs = c.stream});
  result.bytes = outputs[0].bytes();
  for (const Buffer& output : outputs) {
    EXPECT_TRUE(output.guards_intact()) << c;
    EXPECT_TRUE(output.bytes() == result.bytes) << c;
  }
  return result;
}

class ReduceTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (tested() == nullptr) GTEST_SKIP() << "this processor does not have it";
  }
  const Kernels* tested() const { return kernels(GetParam()); }

  // The tested kernels on the case, the scalar ones on the same inputs in their plainest form.
  void check(const Case& c) {
    const std::uint64_t case_seed = seed() + ++cases_;
    Random random(case_seed);
    const Inputs inputs(random, c.flavour, c.type, c.width, c.count, c.spans, c.alignment);
    Case plain = c;
    plain.outputs = 1;
    plain.in_place = plain.stream = false;
    const Result expected = run(*kernels(Isa::kScalar), plain, inputs, case_seed);
    const Result actual = run(*tested(), c, inputs, case_seed);
    if (expected.bytes != actual.bytes) {
      const auto [a, b] = std::mismatch(expected.bytes.begin(), expected.bytes.end(),
                                        actual.bytes.begin(), actual.bytes.end());
      ADD_FAILURE() << c << " differs at byte " << a - expected.bytes.begin();
    }
    for (std::size_t i = 0; i < expected.stats.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(expected.stats[i].sum_of_squares),
                std::bit_cast<std::uint64_t>(actual.stats[i].sum_of_squares))
          << c << " block " << i;
      EXPECT_EQ(expected.stats[i].nonfinite, actual.stats[i].nonfinite) << c << " block " << i;
    }
  }

 private:
  std::uint64_t cases_ = 0;
};

std::uint32_t divisor_of(Operation operation, std::size_t width) {
  return operation == Operation::kAverage ? static_cast<std::uint32_t>(width) : 1;
}

TEST_P(ReduceTest, EveryWidthOfEveryKernel) {
  std::uint64_t turn = 0;
  for_each_kernel([&](ElementType type, Operation operation) {
    for (const std::size_t width :
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 100, 1024}) {
      if (test::kSanitized && width > 17 && width != 33 && ++turn % 8 != 0) continue;
      const std::size_t count = width >= 100 ? 137 : 1301;
      for (int f = 0; f < test::kFlavours; ++f) {
        if (width >= 100 && ++turn % 5 != 0) continue;
        check({.type = type,
               .operation = operation,
               .width = width,
               .count = count,
               .flavour = static_cast<Flavour>(f),
               .divisor = divisor_of(operation, width)});
      }
    }
  });
}

// All of a vector's lanes, its tail, and the cuts between blocks.
TEST_P(ReduceTest, EverySmallCount) {
  for_each_kernel([&](ElementType type, Operation operation) {
    for (std::size_t count = 1; count <= 300; count += test::kSanitized ? 7 : 1) {
      check({.type = type,
             .operation = operation,
             .width = 3,
             .count = count,
             .flavour = Flavour::kRare,
             .divisor = divisor_of(operation, 3),
             .stats = count % 5 == 0});
    }
  });
}

TEST_P(ReduceTest, EverythingAtRandom) {
  Random random(seed());
  const int cases = test::kSanitized ? 300 : 3000;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    Case c;
    c.type = kElementTypes[random() % kElementTypes.size()].type;
    c.operation = static_cast<Operation>(random() % kOperationCount);
    c.width = random() % 4 == 0 ? 1 + random() % 70 : 1 + random() % 16;
    c.count = 1 + random() % (random() % 16 == 0 ? 20000 : 700);
    c.flavour = static_cast<Flavour>(random() % test::kFlavours);
    if (c.operation == Operation::kAverage) {
      c.divisor = static_cast<std::uint32_t>(random() % 3 == 0 ? random() >> (32U + random() % 32U)
                                                               : c.width);
      c.divisor = std::max(c.divisor, 1U);
    }
    c.spans = 1 + (random() % 2) * (random() % 6);
    const std::size_t alignments[] = {1, element_bytes(c.type), 64};
    c.alignment = alignments[random() % 3];
    c.outputs = 1 + (random() % 2) * (random() % 9);
    c.in_place = random() % 4 == 0;
    c.stream = random() % 3 == 0;
    c.stats = random() % 3 == 0;
    check(c);
  }
}

template <class T>
std::vector<T> interesting() {
  if constexpr (sizeof(T) == 2) {  // of f16 and of bf16
    return {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x7bff,
            0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00, 0xfe00, 0x7fff, 0xffff, 0x007f, 0x0080,
            0x8080, 0x3f80, 0xbf80, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fc0, 0xffc0};
  } else if constexpr (sizeof(T) == 4) {
    return {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
            0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001,
            0xff800001, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff};
  } else {
    return {0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
            0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000, 0xbff0000000000000,
            0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
            0x7ff0000000000001, 0xfff0000000000001, 0x7ff8000000000000, 0xffffffffffffffff};
  }
}

// All pairs, so that no combination of signs, zeros, infinities and NaNs is left out.
template <class T>
void check_pairs(const Kernels& tested, ElementType type, Operation operation) {
  std::vector<T> inputs[2];
  for (const T x : interesting<T>()) {
    for (const T y : interesting<T>()) {
      inputs[0].push_back(x);
      inputs[1].push_back(y);
    }
  }
  const std::size_t count = inputs[0].size();
  const Span spans[] = {{reinterpret_cast<const std::byte*>(inputs[0].data()), count * sizeof(T)},
                        {reinterpret_cast<const std::byte*>(inputs[1].data()), count * sizeof(T)}};
  const View views[] = {View(&spans[0], 1), View(&spans[1], 1)};
  const auto result = [&](const Kernels& k) {
    std::vector<T> out(count);
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(out.data())};
    reduce(k, {.type = type,
               .operation = operation,
               .divisor = 2,
               .count = count,
               .inputs = views,
               .outputs = outputs});
    return out;
  };
  const std::vector<T> expected = result(*kernels(Isa::kScalar));
  const std::vector<T> actual = result(tested);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(expected[i], actual[i])
        << std::hex << name(type) << ' ' << name(operation) << ' ' << std::uint64_t{inputs[0][i]}
        << ' ' << std::uint64_t{inputs[1][i]};
  }
}

TEST_P(ReduceTest, PairsOfSpecialValues) {
  for (int o = 0; o < kOperationCount; ++o) {
    const auto operation = static_cast<Operation>(o);
    check_pairs<std::uint32_t>(*tested(), ElementType::kF32, operation);
    check_pairs<std::uint64_t>(*tested(), ElementType::kF64, operation);
    check_pairs<std::uint16_t>(*tested(), ElementType::kF16, operation);
    check_pairs<std::uint16_t>(*tested(), ElementType::kBf16, operation);
  }
}

// A host that flushes subnormals or rounds upwards gets the same bits, and its mode back.
TEST_P(ReduceTest, TheCallersFloatModeDoesNotMatter) {
#if defined(__SSE__)
  const Case c = {.width = 4, .count = 777, .flavour = Flavour::kSubnormal, .stats = true};
  for (const ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kBf16}) {
    Case typed = c;
    typed.type = type;
    Random random(seed());
    const Inputs inputs(random, typed.flavour, typed.type, typed.width, typed.count, 1, 1);
    const Result expected = run(*kernels(Isa::kScalar), typed, inputs, seed());
    const unsigned before = _mm_getcsr();
    const unsigned hostile = 0x1f80U | 0x8000U | 0x0040U | 0x4000U;  // FTZ, DAZ, upwards
    _mm_setcsr(hostile);
    const Result actual = run(*tested(), typed, inputs, seed());
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & ~0x3fU, hostile);
    EXPECT_EQ(expected.bytes, actual.bytes) << typed;
    EXPECT_EQ(expected.stats[0].sum_of_squares, actual.stats[0].sum_of_squares);
  }
#endif
}

TEST_P(ReduceTest, NothingToDo) {
  const Span span = {};
  const View views[] = {View(&span, 1)};
  std::byte* outputs[] = {nullptr};
  reduce(*tested(), {.count = 0, .inputs = views, .outputs = outputs});
}

INSTANTIATE_TEST_SUITE_P(Isas, ReduceTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& param) {
                           return std::string(kIsaNames[static_cast<std::size_t>(param.param)]);
                         });

TEST(Isas, BestIsOneThatThisProcessorHas) {
  EXPECT_NE(kernels(Isa::kScalar), nullptr);
  EXPECT_NE(kernels(best_isa()), nullptr);
}

}  // namespace
}  // namespace tally::summation
