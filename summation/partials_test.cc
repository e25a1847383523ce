// Partial sums, as inputs and as results, on every instruction set against the definition, element
// by element: the inputs in rank order, then the partials, one division, one rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "summation/reduce.h"
#include "summation/scalar.h"
#include "summation/test_vectors.h"

namespace tally::summation {
namespace {

using test::Buffer;
using test::Flavour;
using test::for_each_kernel;
using test::Inputs;
using test::Random;
using test::seed;
using Bytes = std::vector<std::byte>;

struct Case {
  ElementType type = ElementType::kBf16;
  Operation operation = Operation::kSum;
  std::size_t inputs = 1;
  std::size_t partials = 1;
  std::size_t count = 1;
  Flavour flavour = Flavour::kNumbers;
  std::size_t spans = 1;      // of every input and partial
  std::size_t alignment = 1;  // of inputs, partials and outputs
  std::size_t outputs = 1;
  bool partial_result = false;
  bool stream = false;
  bool stats = false;

  ElementType partial() const { return partial_type(type, operation); }
  ElementType result() const { return partial_result ? partial() : type; }
  std::uint32_t divisor() const { return static_cast<std::uint32_t>(inputs + 3 * partials); }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name(c.type) << ' ' << name(c.operation) << " W=" << c.inputs << " P=" << c.partials
             << " n=" << c.count << " flavour=" << static_cast<int>(c.flavour)
             << " spans=" << c.spans << " alignment=" << c.alignment << " outputs=" << c.outputs
             << " partial_result=" << c.partial_result << " stream=" << c.stream
             << " stats=" << c.stats << " TALLY_TEST_SEED=" << seed();
}

std::vector<Bytes> contents(const Inputs& inputs, std::size_t bytes) {
  std::vector<Bytes> all(inputs.views().size(), Bytes(bytes));
  for (std::size_t i = 0; i < all.size(); ++i) inputs.copy(i, all[i].data());
  return all;
}

template <class T>
T load(const Bytes& from, std::size_t i) {
  T value;
  std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(Bytes& to, std::size_t i, T value) {
  std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
}

// The definition.
template <ElementType Type, Operation Op>
Bytes defined(const Case& c, const std::vector<Bytes>& inputs, const std::vector<Bytes>& partials) {
  using Element = scalar::Element<Type>;
  using Partial = scalar::Element<partial_type(Type, Op)>;
  using Wide = typename Element::Wide;
  Bytes result(c.count * element_bytes(c.result()));
  for (std::size_t i = 0; i < c.count; ++i) {
    std::vector<Wide> terms;
    for (const Bytes& input : inputs) {
      terms.push_back(Element::widen(load<typename Element::Stored>(input, i)));
    }
    for (const Bytes& partial : partials) {
      terms.push_back(Partial::widen(load<typename Partial::Stored>(partial, i)));
    }
    Wide sum = terms[0];
    for (std::size_t t = 1; t < terms.size(); ++t) sum = scalar::Fold<Op>::step(sum, terms[t]);
    if (c.partial_result) {
      store(result, i, Partial::round(sum));
    } else {
      store(result, i, Element::round(scalar::Fold<Op>::end(sum, c.divisor())));
    }
  }
  return result;
}

template <ElementType Type, std::size_t... Ops>
Bytes defined_of(const Case& c, const std::vector<Bytes>& inputs,
                 const std::vector<Bytes>& partials, std::index_sequence<Ops...> /*operations*/) {
  Bytes result;
  ((static_cast<Operation>(Ops) == c.operation
        ? void(result = defined<Type, static_cast<Operation>(Ops)>(c, inputs, partials))
        : void()),
   ...);
  return result;
}

template <std::size_t... Types>
Bytes definition(const Case& c, const std::vector<Bytes>& inputs,
                 const std::vector<Bytes>& partials, std::index_sequence<Types...> /*types*/) {
  Bytes result;
  ((static_cast<ElementType>(Types) == c.type
        ? void(result = defined_of<static_cast<ElementType>(Types)>(
                   c, inputs, partials, std::make_index_sequence<kOperationCount>()))
        : void()),
   ...);
  return result;
}

Bytes expected(const Case& c, const std::vector<Bytes>& inputs,
               const std::vector<Bytes>& partials) {
  return definition(c, inputs, partials, std::make_index_sequence<kElementTypeCount>());
}

// Of a result, by the kernel that makes statistics of a single input.
std::vector<BlockStats> stats_of(const Case& c, const Bytes& result) {
  const Span span = {result.data(), result.size()};
  const View view(&span, 1);
  Bytes copy(result.size());
  std::byte* out = copy.data();
  std::vector<BlockStats> stats(stats_blocks(c.count));
  reduce(*kernels(Isa::kScalar), {.type = c.type,
                                  .operation = Operation::kSum,
                                  .count = c.count,
                                  .inputs = {&view, 1},
                                  .outputs = {&out, 1},
                                  .stats = stats});
  return stats;
}

void expect_same(const Case& c, const std::vector<BlockStats>& a,
                 const std::vector<BlockStats>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a[i].sum_of_squares),
              std::bit_cast<std::uint64_t>(b[i].sum_of_squares))
        << c << " block " << i;
    EXPECT_EQ(a[i].nonfinite, b[i].nonfinite) << c << " block " << i;
  }
}

class PartialsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (tested() == nullptr) GTEST_SKIP() << "this processor does not have it";
  }
  const Kernels* tested() const { return kernels(GetParam()); }

  void check(const Case& c) {
    Random random(seed() + ++cases_);
    const Inputs inputs(random, c.flavour, c.type, c.inputs, c.count, c.spans, c.alignment);
    const Inputs partials(random, c.flavour, c.partial(), c.partials, c.count, c.spans,
                          c.alignment);
    const std::size_t bytes = c.count * element_bytes(c.result());
    std::vector<Buffer> outputs;
    std::vector<std::byte*> pointers;
    for (std::size_t o = 0; o < c.outputs; ++o) {
      outputs.emplace_back(bytes, test::random_shift(random, c.alignment));
      pointers.push_back(outputs.back().data());
    }
    std::vector<BlockStats> stats(c.stats ? stats_blocks(c.count) : 0, {-1, 99});
    reduce(*tested(), {.type = c.type,
                       .operation = c.operation,
                       .partial_result = c.partial_result,
                       .divisor = c.divisor(),
                       .count = c.count,
                       .inputs = inputs.views(),
                       .partials = partials.views(),
                       .outputs = pointers,
                       .stats = stats,
                       .stream_outputs = c.stream});
    const Bytes right = expected(c, contents(inputs, c.count * element_bytes(c.type)),
                                 contents(partials, c.count * element_bytes(c.partial())));
    for (const Buffer& output : outputs) {
      EXPECT_TRUE(output.guards_intact()) << c;
      EXPECT_TRUE(output.bytes() == right) << c;
    }
    if (c.stats) expect_same(c, stats_of(c, right), stats);
  }

 private:
  std::uint64_t cases_ = 0;
};

// Also counts at which inputs, partials, or both together need more than one group.
TEST_P(PartialsTest, EveryNumberOfInputsAndPartials) {
  std::uint64_t turn = 0;
  for_each_kernel([&](ElementType type, Operation operation) {
    const bool wider = partial_type(type, operation) != type;
    for (std::size_t inputs = 0; inputs <= 40; ++inputs) {
      for (std::size_t partials = inputs == 0 ? 1 : 0; partials <= 9; ++partials) {
        // Of the others the appended partials are inputs like any; those have a test of their own.
        if (++turn % (test::kSanitized ? 41 : 1) != 0 || (!wider && turn % 7 != 0)) continue;
        check({.type = type,
               .operation = operation,
               .inputs = inputs,
               .partials = partials,
               .count = 1 + (turn * 37) % 1301,
               .flavour = static_cast<Flavour>(turn % test::kFlavours),
               .partial_result = turn / test::kFlavours % 2 != 0});
      }
    }
  });
}

// All of a vector's lanes, its tail, and the cuts where accumulators are full.
TEST_P(PartialsTest, EverySmallCount) {
  for (const ElementType type : {ElementType::kF16, ElementType::kBf16}) {
    for (const bool partial_result : {false, true}) {
      for (std::size_t count = 1; count <= 300; count += test::kSanitized ? 7 : 1) {
        for (const std::size_t more : {0, 1000, 2000}) {
          if (more != 0 && count % 5 != 0) continue;
          check({.type = type,
                 .operation = Operation::kAverage,
                 .inputs = count % 4,
                 .partials = 1 + count % 2,
                 .count = count + more,
                 .flavour = Flavour::kRare,
                 .partial_result = partial_result,
                 .stats = !partial_result && count % 3 == 0});
        }
      }
    }
  }
}

TEST_P(PartialsTest, EverythingAtRandom) {
  Random random(seed());
  const int cases = test::kSanitized ? 300 : 3000;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    Case c;
    c.type = kElementTypes[random() % kElementTypes.size()].type;
    if (random() % 2 == 0) c.type = random() % 2 == 0 ? ElementType::kF16 : ElementType::kBf16;
    c.operation = static_cast<Operation>(random() % kOperationCount);
    c.inputs = random() % 4 == 0 ? random() % 41 : random() % 9;
    c.partials = random() % 9;
    if (c.inputs + c.partials == 0) c.inputs = 1;
    c.count = 1 + random() % (random() % 16 == 0 ? 20000 : 700);
    c.flavour = static_cast<Flavour>(random() % test::kFlavours);
    c.spans = 1 + (random() % 2) * (random() % 6);
    const std::size_t alignments[] = {1, element_bytes(c.type), 64};
    c.alignment = alignments[random() % 3];
    c.outputs = 1 + (random() % 2) * (random() % 4);
    c.partial_result = random() % 2 == 0;
    c.stream = random() % 3 == 0;
    c.stats = !c.partial_result && random() % 3 == 0;
    check(c);
  }
}

// Ranks of two branches and two of the root's own, as a tree of nodes adds them up.
TEST_P(PartialsTest, TwoLevels) {
  for_each_kernel([&](ElementType type, Operation operation) {
    for (int f = 0; f < test::kFlavours; ++f) {
      Case c = {.type = type,
                .operation = operation,
                .inputs = 3,
                .partials = 0,
                .count = 1500,
                .flavour = static_cast<Flavour>(f),
                .partial_result = true};
      Random random(seed() + static_cast<std::uint64_t>(f));
      const std::size_t wide = c.count * element_bytes(c.partial());
      std::vector<Bytes> reached(2, Bytes(wide));
      std::vector<Bytes> right;
      std::vector<Span> spans;
      for (Bytes& partial : reached) {
        const Inputs inputs(random, c.flavour, type, c.inputs, c.count, 1, 1);
        std::byte* out = partial.data();
        reduce(*tested(), {.type = type,
                           .operation = operation,
                           .partial_result = true,
                           .divisor = 8,
                           .count = c.count,
                           .inputs = inputs.views(),
                           .outputs = {&out, 1}});
        right.push_back(expected(c, contents(inputs, c.count * element_bytes(type)), {}));
        EXPECT_TRUE(partial == right.back()) << c;
        spans.push_back({partial.data(), wide});
      }
      const View views[] = {View(&spans[0], 1), View(&spans[1], 1)};
      c.inputs = 0;
      c.partials = 2;
      c.partial_result = false;
      Bytes result(c.count * element_bytes(type));
      std::byte* out = result.data();
      reduce(*tested(), {.type = type,
                         .operation = operation,
                         .divisor = c.divisor(),
                         .count = c.count,
                         .partials = views,
                         .outputs = {&out, 1}});
      EXPECT_TRUE(result == expected(c, {}, right)) << c;
    }
  });
}

// One element, by hand: what f16 could not hold on the way up.
std::vector<std::byte> one(const Kernels& kernels, const Case& c, std::uint16_t rank,
                           float partial) {
  const Span rank_span = {reinterpret_cast<const std::byte*>(&rank), 2};
  const Span partial_span = {reinterpret_cast<const std::byte*>(&partial), 4};
  const View rank_view(&rank_span, 1);
  const View partial_view(&partial_span, 1);
  Bytes result(element_bytes(c.result()));
  std::byte* out = result.data();
  reduce(kernels, {.type = c.type,
                   .operation = c.operation,
                   .partial_result = c.partial_result,
                   .divisor = 4,
                   .count = 1,
                   .inputs = {&rank_view, 1},
                   .partials = {&partial_view, 1},
                   .outputs = {&out, 1}});
  return result;
}

TEST_P(PartialsTest, ByHand) {
  Case c = {.type = ElementType::kF16, .operation = Operation::kAverage, .partial_result = true};
  EXPECT_EQ(load<float>(one(*tested(), c, 0x7bff, 65504.0F), 0), 131008.0F);     // not divided by 4
  EXPECT_EQ(load<float>(one(*tested(), c, 0x3c00, 0x1p-20F), 0), 1 + 0x1p-20F);  // not rounded
  EXPECT_EQ(load<std::uint32_t>(one(*tested(), c, 0xfe01, 1.0F), 0), 0x7fc00000U);
  EXPECT_EQ(load<std::uint32_t>(one(*tested(), c, 0x8000, -0.0F), 0), 0x80000000U);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(load<float>(one(*tested(), c, 0x3c00, -infinity), 0), -infinity);
  EXPECT_EQ(load<std::uint32_t>(one(*tested(), c, 0x7c00, -infinity), 0), 0x7fc00000U);
  const float tiny = std::bit_cast<float>(1U);
  EXPECT_EQ(load<float>(one(*tested(), c, 0x0000, tiny), 0), tiny);
  c.partial_result = false;
  EXPECT_EQ(load<std::uint16_t>(one(*tested(), c, 0x7bff, 131008.0F), 0), scalar::round_f16(49128));
  EXPECT_EQ(load<std::uint16_t>(one(*tested(), c, 0x7c00, -infinity), 0), 0x7e00);
}

INSTANTIATE_TEST_SUITE_P(Isas, PartialsTest,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& param) {
                           return std::string(kIsaNames[static_cast<std::size_t>(param.param)]);
                         });

TEST(PartialType, IsF32ForSumsOfHalves) {
  using enum ElementType;
  for (const ElementType half : {kF16, kBf16}) {
    EXPECT_EQ(partial_type(half, Operation::kSum), kF32);
    EXPECT_EQ(partial_type(half, Operation::kAverage), kF32);
    EXPECT_EQ(partial_type(half, Operation::kMin), half);
    EXPECT_EQ(partial_type(half, Operation::kMax), half);
  }
  EXPECT_EQ(partial_type(kF32, Operation::kAverage), kF32);
  EXPECT_EQ(partial_type(kF64, Operation::kSum), kF64);
  EXPECT_EQ(partial_type(kI8, Operation::kSum), kI8);
}

}  // namespace
}  // namespace tally::summation
