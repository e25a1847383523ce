#include "control/machine/lone_shard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace tally::control {
namespace {

using Cpus = std::vector<int>;

constexpr auto kShardTimeout = std::chrono::seconds(20);

// CPUs that need not be there: nobody is moved.
class LoneShardTest : public testing::Test {
 protected:
  struct Node {
    std::unique_ptr<LoneShard> shard;
    Cpus where;
    int moves = 0;
  };

  static CpuClaims claims() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return CpuClaims(fmt::format("tally-test-{}-{}", ::getpid(), test->name()));
  }
  std::unique_ptr<Node> node(LoneShard::Times times = {}) {
    auto made = std::make_unique<Node>();
    made->shard = std::make_unique<LoneShard>(
        io_, claims(), two_,
        [node = made.get()](const Cpus& cpus, auto) {
          node->where = cpus;
          ++node->moves;
        },
        times);
    return made;
  }
  bool comes_to(const Node& node, const Cpus& where) {
    const auto until = std::chrono::steady_clock::now() + kShardTimeout;
    while (node.where != where && std::chrono::steady_clock::now() < until) {
      io_.run_for(std::chrono::milliseconds(10));
    }
    return node.where == where;
  }

  asio::io_context io_{1};
  const Cpus two_{0, 1};
};

TEST_F(LoneShardTest, IsAnywhereWhileItIsTheOnlyOne) {
  const auto only = node();
  EXPECT_EQ(only->where, two_);
  io_.run_for(std::chrono::milliseconds(300));
  EXPECT_EQ(only->moves, 1);
}

TEST_F(LoneShardTest, TwoStayOnACpuEachUntilOneIsGone) {
  const auto first = node();
  auto second = node();
  EXPECT_EQ(second->where, Cpus{1}) << "at once";
  EXPECT_TRUE(comes_to(*first, {0}));
  second.reset();
  EXPECT_TRUE(comes_to(*first, two_));
  EXPECT_EQ(first->moves, 3);
}

TEST_F(LoneShardTest, ThreeOnTwoCpusAreAnywhere) {
  const auto first = node(), second = node();
  auto third = node();
  EXPECT_EQ(third->where, two_);
  EXPECT_TRUE(comes_to(*first, two_));
  EXPECT_TRUE(comes_to(*second, two_));
  third.reset();
  EXPECT_TRUE(comes_to(*first, {0}));
  EXPECT_TRUE(comes_to(*second, {1}));
}

TEST_F(LoneShardTest, LooksAtMostOnceASecondHoweverManyNodesStart) {
  const auto begin = std::chrono::steady_clock::now();
  const auto only = node();
  for (int other = 0; other < 6; ++other) {
    const auto started = node();
    io_.run_for(std::chrono::milliseconds(60));
  }
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(only->moves, 1 + passed / std::chrono::seconds(1));
}

// The first pause has ended before the loop runs. The loop runs the handler that destroys the
// shard first, and the handler of the pause after it, so the destructor can no longer cancel it.
TEST_F(LoneShardTest, QueuedHandlerDoesNothingAfterTheDestructor) {
  auto only = node({.pause = std::chrono::milliseconds(0)});
  asio::post(io_, [&] { only.reset(); });
  io_.poll();
  EXPECT_EQ(only, nullptr);
}

TEST_F(LoneShardTest, TakesNoneOfThoseThatSeveralShardsHave) {
  auto several = std::make_optional(claims());
  several->take(two_, 2);
  const auto lone = node();
  EXPECT_EQ(lone->where, two_) << "three shards, two CPUs";
  several.emplace(claims()).take(two_, 1);
  EXPECT_TRUE(comes_to(*lone, {1}));
  several.reset();
  EXPECT_TRUE(comes_to(*lone, two_));
}

}  // namespace
}  // namespace tally::control
