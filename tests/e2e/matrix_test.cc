// Every collective, type, operation and width over sizes and offsets that are odd: the bits that
// the scalar kernel gives, whatever carries them. $TALLY_TEST_TIER and $TALLY_VM decide how much of
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "base/units.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/tier.h"

namespace tally::testing {
namespace {

constexpr std::byte kUntouched{0xa5};

bool in_guest() {
  return std::getenv("TALLY_VM") != nullptr;
}

struct Case {
  protocol::Shape shape;
  std::uint64_t offset = 0;  // of both buffers, in elements
};

// Random bits: infinities, subnormals and NaNs among them.
std::vector<std::byte> random_bytes(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  std::mt19937_64 random(seed);
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const std::uint64_t bits = random();
    std::memcpy(made.data() + i, &bits, 8);
  }
  for (; i < bytes; ++i) made[i] = static_cast<std::byte>(random());
  return made;
}

// One rank's memory: its contribution behind an odd offset, and its result behind another.
class Buffers {
 public:
  Buffers(Rank& rank, std::uint64_t bytes) : rank_(rank), bytes_(bytes) {
    data_ = rank.alloc<std::byte>(2 * bytes_, &region_);
  }

  void run(const Case& one, std::uint16_t number, std::span<const std::byte> input,
           std::span<const std::byte> expected, std::uint32_t tag) {
    const std::uint64_t offset = one.offset * element_bytes(one.shape.type);
    std::copy(input.begin(), input.end(), data_ + offset);
    std::memset(data_ + bytes_, static_cast<int>(kUntouched), expected.size() + 2 * offset + 64);
    auto wanted =
        operation(static_cast<tally_kind>(one.shape.kind), static_cast<tally_type>(one.shape.type),
                  tag, one.shape.count, {region_, offset}, {region_, bytes_ + offset});
    wanted.op = static_cast<tally_op>(one.shape.operation);
    wanted.root = one.shape.root;
    const auto done = rank_.run(wanted);
    ASSERT_EQ(done.status, TALLY_OK) << done.message;
    const std::byte* result = data_ + bytes_ + offset;
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), result))
        << "rank " << number << " of " << one.shape.ranks << ", kind " << wanted.kind << ", type "
        << wanted.type << ", op " << wanted.op << ", count " << wanted.count;
    ASSERT_TRUE(offset == 0 || *(result - 1) == kUntouched) << "before the result";
    ASSERT_EQ(result[expected.size()], kUntouched) << "behind the result";
  }

 private:
  Rank& rank_;
  std::uint64_t bytes_;
  tally_region* region_ = nullptr;
  std::byte* data_ = nullptr;
};

// All ranks as threads; what is expected is computed once, while they wait.
void run_all(std::uint16_t ranks, const std::vector<Case>& cases, std::uint64_t most_bytes) {
  LocalNode node;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const std::byte*> starts;
  for (std::uint16_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_bytes(most_bytes, rank));
    starts.push_back(inputs.back().data());
  }
  Expected expected;
  std::size_t next = 0;
  const auto prepare = [&]() noexcept {
    if (next < cases.size()) compute_expected(cases[next++].shape, starts, expected);
  };
  std::barrier together(ranks, prepare);
  on_each_rank(ranks, [&](std::uint32_t number) {
    const auto rank = static_cast<std::uint16_t>(number);
    Rank r(node.address(), rank, ranks);
    EXPECT_EQ(r.opened(), TALLY_OK) << r.open_error();
    Buffers buffers(r, most_bytes + 4096);
    std::uint32_t tag = 0;
    for (const Case& one : cases) {
      together.arrive_and_wait();
      if (::testing::Test::HasFailure()) continue;
      const auto input = std::span(inputs[rank]).first(input_bytes(one.shape, rank));
      buffers.run(one, rank, input, result_of(one.shape, rank, expected), ++tag);
    }
  });
}

// Over soft-RoCE each takes its time: with one width all are tried.
std::vector<std::uint64_t> sizes(std::uint16_t ranks) {
  if (test_tier() == "fast") return {0, 4099};
  if (in_guest() && test_tier() != "soak" && ranks != 3) return {1, 4099};
  if (in_guest()) return {0, 1, 4099, (64 << 10) + 3};
  return {0, 1, 63, 4095, 4099, 16 << 10, (64 << 10) + 3};
}

std::vector<Case> every_case(std::uint16_t ranks) {
  std::vector<Case> cases;
  std::uint64_t number = 0;
  const auto add = [&](wire::Kind kind, ElementType type, Operation op, std::uint64_t bytes) {
    protocol::Shape shape;
    shape.kind = kind;
    shape.type = type;
    shape.operation = op;
    shape.ranks = ranks;
    shape.count = (bytes + element_bytes(type) - 1) / element_bytes(type);
    shape.root = static_cast<std::uint16_t>(number % ranks);
    cases.push_back({shape, number++ % 2 == 0 ? 0 : 2 * number + 1});
    cases.back().offset %= 255;
  };
  for (const ElementTypeInfo& info : kElementTypes) {
    const ElementType type = info.type;
    for (const std::uint64_t bytes : sizes(ranks)) {
      for (std::size_t o = 0; o < kOperationCount; ++o) {
        const auto op = static_cast<Operation>(o);
        add(wire::Kind::kAllReduce, type, op, bytes);
        add(wire::Kind::kReduce, type, op, bytes);
        add(wire::Kind::kReduceScatter, type, op, bytes);
      }
      add(wire::Kind::kBroadcast, type, Operation::kSum, bytes);
      add(wire::Kind::kAllGather, type, Operation::kSum, bytes);
    }
  }
  return cases;
}

class Matrix : public ::testing::TestWithParam<int> {};

TEST_P(Matrix, EveryKindTypeAndOperation) {
  const auto ranks = static_cast<std::uint16_t>(GetParam());
  if (test_tier() == "fast" && ranks != 1 && ranks != 3 && ranks != 8) return;  // sanitizers
  run_all(ranks, every_case(ranks), (64 << 10) + 16);
}

INSTANTIATE_TEST_SUITE_P(Widths, Matrix, ::testing::Range(1, 9));

TEST_P(Matrix, LargeOnes) {
  const auto ranks = static_cast<std::uint16_t>(GetParam());
  if (ranks < 2 || ranks > 3) return;
  const std::uint64_t most = (in_guest()              ? 8
                              : test_tier() == "soak" ? 256
                              : test_tier() == "fast" ? 1
                                                      : 16) *
                             kMib;
  std::vector<Case> cases;
  for (std::uint64_t bytes = 256 << 10; bytes < 4 * most; bytes *= 4) {
    for (const std::uint64_t more : {0, 4 * 17}) {
      protocol::Shape shape;
      shape.ranks = ranks;
      shape.count = (std::min(bytes, most) + more) / 4;
      cases.push_back({shape, more == 0 ? 0 : 5U});
    }
  }
  run_all(ranks, cases, most + 4096);
}

}  // namespace
}  // namespace tally::testing
