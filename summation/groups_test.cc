// Many inputs in groups, each with the partial result of those before it as its first operand: the
// bits of the scalar kernel over all of them at once, on every instruction set.
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "summation/reduce.h"
#include "summation/test_vectors.h"

namespace tally::summation {
namespace {

using test::Buffer;
using test::Flavour;
using test::Inputs;
using test::Random;
using test::seed;

struct GroupsCase {
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::size_t inputs = 17;
  std::size_t partials = 0;  // with the last group, or after it
  std::size_t most = 16;     // inputs of a group
  std::size_t count = 1;
  Flavour flavour = Flavour::kNumbers;
  std::size_t spans = 1;
  std::size_t outputs = 1;
  bool partial_result = false;
  bool stream = false;
  bool stats = false;

  ElementType partial() const { return partial_type(type, operation); }
  std::size_t result_bytes() const {
    return count * element_bytes(partial_result ? partial() : type);
  }
};

std::ostream& operator<<(std::ostream& out, const GroupsCase& c) {
  return out << name(c.type) << ' ' << name(c.operation) << " W=" << c.inputs << " P=" << c.partials
             << " most=" << c.most << " n=" << c.count << " flavour=" << static_cast<int>(c.flavour)
             << " spans=" << c.spans << " outputs=" << c.outputs
             << " partial_result=" << c.partial_result << " stream=" << c.stream
             << " stats=" << c.stats << " TALLY_TEST_SEED=" << seed();
}

struct GroupsResult {
  std::vector<Buffer> outputs;
  std::vector<BlockStats> stats;
};

class GroupsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (kernels(GetParam()) == nullptr) GTEST_SKIP() << "this processor does not have it";
  }

  void check(const GroupsCase& c) {
    Random random(seed() + ++cases_);
    const Inputs inputs(random, c.flavour, c.type, c.inputs, c.count, c.spans, 1);
    const Inputs partials(random, c.flavour, c.partial(), c.partials, c.count, c.spans, 1);
    GroupsResult right = make(c, random), found = make(c, random);
    parallel_for(c, inputs.views(), partials.views(), right);
    in_groups(c, inputs.views(), partials.views(), random, found);
    for (const Buffer& output : found.outputs) {
      EXPECT_TRUE(output.guards_intact()) << c;
      EXPECT_TRUE(output.bytes() == right.outputs[0].bytes()) << c;
    }
    for (std::size_t i = 0; i < right.stats.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(right.stats[i].sum_of_squares),
                std::bit_cast<std::uint64_t>(found.stats[i].sum_of_squares))
          << c;
      EXPECT_EQ(right.stats[i].nonfinite, found.stats[i].nonfinite) << c;
    }
  }

 private:
  static GroupsResult make(const GroupsCase& c, Random& random) {
    GroupsResult result;
    for (std::size_t o = 0; o < c.outputs; ++o) {
      result.outputs.emplace_back(c.result_bytes(), test::random_shift(random, 1));
    }
    if (c.stats) result.stats.assign(stats_blocks(c.count), {-1, 99});
    return result;
  }

  static Reduction reduction_of(const GroupsCase& c) {
    Reduction reduction;
    reduction.type = c.type;
    reduction.operation = c.operation;
    reduction.divisor = static_cast<std::uint32_t>(c.inputs + 3 * c.partials);
    reduction.count = c.count;
    return reduction;
  }

  static void store(const Kernels& with, const GroupsCase& c, Reduction reduction,
                    GroupsResult& result) {
    std::vector<std::byte*> pointers;
    for (const Buffer& output : result.outputs) pointers.push_back(output.data());
    reduction.partial_result = c.partial_result;
    reduction.outputs = pointers;
    reduction.stats = result.stats;
    reduction.stream_outputs = c.stream;
    reduce(with, reduction);
  }

  static void parallel_for(const GroupsCase& c, std::span<const View> inputs,
                           std::span<const View> partials, GroupsResult& result) {
    Reduction reduction = reduction_of(c);
    reduction.inputs = inputs;
    reduction.partials = partials;
    store(*kernels(Isa::kScalar), c, reduction, result);
  }

  // Of 1 to c.most inputs each. The partials come with the last one, or have a group to themselves.
  static void in_groups(const GroupsCase& c, std::span<const View> inputs,
                        std::span<const View> partials, Random& random, GroupsResult& result) {
    const Buffer sum(c.count * element_bytes(c.partial()), test::random_shift(random, 1));
    std::byte* const in_place = sum.data();
    const bool apart = !partials.empty() && random() % 2 == 0;
    const std::byte* before = nullptr;
    for (;;) {
      const std::size_t size = std::min<std::size_t>(1 + random() % c.most, inputs.size());
      const bool last = size == inputs.size() && !(apart && size > 0);
      Reduction reduction = reduction_of(c);
      reduction.before = before;
      reduction.inputs = inputs.first(size);
      if (last) {
        reduction.partials = partials;
        store(*kernels(GetParam()), c, reduction, result);
        break;
      }
      reduction.partial_result = true;
      reduction.outputs = {&in_place, 1};
      reduce(*kernels(GetParam()), reduction);
      before = in_place;
      inputs = inputs.subspan(size);
    }
    EXPECT_TRUE(sum.guards_intact()) << c;
  }

  std::uint64_t cases_ = 0;
};

TEST_P(GroupsTest, EveryTypeAndOperationOfManyRanks) {
  std::uint64_t turn = 0;
  test::for_each_kernel([&](ElementType type, Operation operation) {
    for (const std::size_t inputs : {17, 33, 64, 100, 1024}) {
      if (test::kSanitized && inputs == 1024 && ++turn % 7 != 0) continue;
      for (int f = 0; f < test::kFlavours; ++f) {
        check({.type = type,
               .operation = operation,
               .inputs = inputs,
               .count = inputs == 1024 ? 67u : 641u,
               .flavour = static_cast<Flavour>(f)});
      }
    }
  });
}

TEST_P(GroupsTest, EverySmallCount) {
  for (const ElementType type : {ElementType::kF16, ElementType::kBf16, ElementType::kF32}) {
    for (std::size_t count = 1; count <= 300; count += test::kSanitized ? 7 : 1) {
      check({.type = type,
             .operation = Operation::kAverage,
             .inputs = 17 + count % 5,
             .count = count,
             .flavour = Flavour::kRare,
             .stats = count % 3 == 0});
    }
  }
}

TEST_P(GroupsTest, EverythingAtRandom) {
  Random random(seed());
  const int cases = test::kSanitized ? 200 : 700;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    GroupsCase c;
    c.type = kElementTypes[random() % kElementTypes.size()].type;
    if (random() % 2 == 0) c.type = random() % 2 == 0 ? ElementType::kF16 : ElementType::kBf16;
    c.operation = static_cast<Operation>(random() % kOperationCount);
    c.inputs = 1 + random() % 60;
    c.partials = random() % 3 == 0 ? random() % 9 : 0;
    c.most = 1 + random() % 40;
    c.count = 1 + random() % (random() % 16 == 0 ? 20000 : 700);
    c.flavour = static_cast<Flavour>(random() % test::kFlavours);
    c.spans = 1 + (random() % 2) * (random() % 6);
    c.outputs = 1 + (random() % 2) * (random() % 4);
    c.partial_result = random() % 3 == 0;
    c.stream = random() % 3 == 0;
    c.stats = !c.partial_result && random() % 3 == 0;
    check(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, GroupsTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& param) {
                           return std::string(kIsaNames[static_cast<std::size_t>(param.param)]);
                         });

}  // namespace
}  // namespace tally::summation
