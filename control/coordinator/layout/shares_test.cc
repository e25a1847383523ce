#include "control/coordinator/layout/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tally::control {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<Member> mixed_members(std::initializer_list<std::uint64_t> workers,
                                  std::initializer_list<std::uint64_t> helpers) {
  std::vector<Member> all;
  for (const auto& [speeds, role] : {std::pair{workers, Role::kWorker}, {helpers, Role::kHelper}}) {
    for (const std::uint64_t speed : speeds) {
      Member& member = all.emplace_back();
      member.role = role;
      member.speed = speed;
    }
  }
  return all;
}

std::uint32_t sum(const std::vector<std::uint32_t>& units) {
  return std::accumulate(units.begin(), units.end(), 0U);
}

// How long the slowest takes with these shares, times the bytes.
double time_of(const std::vector<Member>& all, const std::vector<std::uint32_t>& shares) {
  double n = 0, time = 0;
  for (const Member& member : all) n += member.role == Role::kWorker ? 1 : 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double share = shares[i] / 65536.0;
    const double load = all[i].role == Role::kWorker ? 1 + (n - 2) * share : n * share;
    time = std::max(time, load / static_cast<double>(all[i].speed));
  }
  return time;
}

TEST(Shares, GiveTheRateOfAnOperation) {
  const auto rate = [](const std::vector<Member>& all, std::uint32_t ranks) {
    return rate_of(all, node_shares(all), ranks);
  };
  EXPECT_NEAR(static_cast<double>(rate(mixed_members({120, 120, 120, 120}, {120, 120}), 4)), 100,
              1);
  EXPECT_NEAR(static_cast<double>(rate(mixed_members({150, 150, 150, 150}, {}), 4)), 100, 1);
  EXPECT_NEAR(static_cast<double>(rate(mixed_members({150, 150, 150, 150}, {}), 8)), 50, 1)
      << "two ranks on each machine";
  EXPECT_NEAR(static_cast<double>(rate(mixed_members({}, {100, 100}), 4)), 50, 1)
      << "workers are elsewhere";
  EXPECT_EQ(rate(mixed_members({150, 0}, {}), 2), 0U) << "nobody knows";
}

TEST(Shares, MeasuredSpeedsOverrideDeclaredOnes) {
  auto all = mixed_members({}, {1, 1});
  all[1].measured.speed = 3;
  EXPECT_THAT(node_shares(all), ElementsAre(16384, 49152));
  // A NIC that is down takes its part away, of what was measured too.
  all[1].rails = {{.address = "x", .speed = 10, .shards = 1, .up = true},
                  {.address = "y", .speed = 20, .shards = 1, .up = false}};
  EXPECT_THAT(node_shares(all), ElementsAre(32768, 32768));
  for (Rail& rail : all[1].rails) rail.speed = 0;
  all[1].measured.speed = 2;
  EXPECT_THAT(node_shares(all), ElementsAre(32768, 32768));
}

TEST(Shares, AMachineHasNoMoreThanItCanSum) {
  auto all = mixed_members({10, 10}, {10});
  const std::uint32_t before = node_shares(all)[2];
  all[2].measured.sum = 2;  // both workers' bytes: a tenth of the operation
  EXPECT_LT(node_shares(all)[2], before / 2);
  EXPECT_EQ(sum(node_shares(all)), 65536U);
}

TEST(Shares, HelpersCarrySharesByTheirSpeed) {
  EXPECT_THAT(node_shares(mixed_members({}, {5})), ElementsAre(65536));
  EXPECT_THAT(node_shares(mixed_members({}, {0, 0, 0})), ElementsAre(21846, 21845, 21845));
  EXPECT_THAT(node_shares(mixed_members({}, {1, 3})), ElementsAre(16384, 49152));
  EXPECT_THAT(node_shares(mixed_members({}, {1, 0, 3})), ElementsAre(10923, 21845, 32768))
      << "unknown: the mean";
}

// t of n workers and k helpers, all of speed 1, from the paper's formula.
TEST(Shares, AreOptimalOnEvenNics) {
  for (const auto& [n, k, expected] : {std::tuple{8, 0, 1.75},
                                       {8, 2, 1.4737},
                                       {8, 4, 1.2727},
                                       {8, 8, 1.0},
                                       {3, 1, 1.2},
                                       {3, 2, 1.0909},
                                       {4, 1, 1.3333},
                                       {5, 2, 1.2903},
                                       {4, 6, 1.0},
                                       {2, 3, 1.0}}) {
    std::vector<Member> all(static_cast<std::size_t>(n + k));
    for (int i = 0; i < n + k; ++i) {
      all[i].speed = 1;
      all[i].role = i < n ? Role::kWorker : Role::kHelper;
    }
    const auto shares = node_shares(all);
    EXPECT_EQ(sum(shares), 65536U);
    EXPECT_NEAR(time_of(all, shares), expected, 1e-3) << n << " workers, " << k << " helpers";
    if (k >= n && n > 2) {
      EXPECT_EQ(shares[0], 0U) << "helpers alone";
    }
  }
}

TEST(Shares, AreOptimalOnUnevenNics) {
  const auto slow_helpers =
      mixed_members({100, 100, 100, 100, 100, 100, 100, 100}, {25, 25, 25, 25, 25, 25, 25, 25});
  EXPECT_NEAR(time_of(slow_helpers, node_shares(slow_helpers)), 0.014737 * 1, 1e-4);
  const auto slow_worker = mixed_members({10, 40, 40, 40}, {40});
  const double best = std::max(1 / 10.0, 6 / (130 + 0.5 * 40));
  EXPECT_NEAR(time_of(slow_worker, node_shares(slow_worker)), best, 1e-4);
}

TEST(Shares, OneMachineWithWorkersNeedsNoOther) {
  EXPECT_THAT(node_shares(mixed_members({10}, {100, 100})), ElementsAre(65536, 0, 0));
}

TEST(Shares, AMachineIsAsFastAsItsNicsThatAreUp) {
  Member one;
  one.speed = 1000;
  one.shards = 4;
  one.rails = {{.address = "a"}, {.address = "b"}};
  deal_shards(one.rails, 4);
  EXPECT_EQ(one.usable_speed(), 1000u);
  one.rails[1].up = false;
  EXPECT_EQ(one.usable_speed(), 500u);
  EXPECT_EQ(one.usable_shards(), 2u);
  one.rails[0].speed = 700;
  EXPECT_EQ(one.usable_speed(), 700u);
}

// Helpers' are their own business; workers have to reach every node.
TEST(Shares, ARailThatAWorkerHasLostIsDownForAll) {
  Members all;
  for (const NodeId node : {1, 2, 3}) all[node].rails = {{.address = "a"}, {.address = "b"}};
  all.at(1).role = Role::kWorker;
  all.at(2).rails[0].up = false;
  const Members helpers = without_lost_rails(all);
  EXPECT_TRUE(helpers.at(1).rails[0].up);
  EXPECT_FALSE(helpers.at(2).rails[0].up);
  EXPECT_TRUE(helpers.at(3).rails[0].up);
  all.at(1).rails[1].up = false;
  const Members workers = without_lost_rails(all);
  EXPECT_FALSE(workers.at(2).rails[1].up);
  EXPECT_FALSE(workers.at(3).rails[1].up);
  EXPECT_TRUE(workers.at(3).rails[0].up);
}

// Workers are there still, trees are not.
TEST(Shares, ARailThatADrainedWorkerHasLostIsDownForAll) {
  Members all;
  for (const NodeId node : {1, 2}) all[node].rails = {{.address = "a"}, {.address = "b"}};
  all.at(1).role = Role::kWorker;
  all.at(1).draining = true;
  all.at(1).rails[1].up = false;
  const Members usable = without_lost_rails(all);
  EXPECT_FALSE(usable.at(2).rails[1].up);
  EXPECT_TRUE(usable.at(1).rails[1].up) << "nor is it who limits the cut";
}

TEST(Shares, ThereAreNoMoreTreesThanThePlanHolds) {
  std::vector<Member> all(100);
  for (Member& member : all) member.shards = 4;
  all[7].shards = 1;
  const auto counts = tree_counts(all, node_shares(all));
  EXPECT_EQ(sum(counts), 199U);
  EXPECT_EQ(counts[7], 1U);
  EXPECT_EQ(counts[0], 2U);
  EXPECT_THAT(tree_counts(std::vector<Member>(256), std::vector<std::uint32_t>(256, 256)), Each(1));
  auto two = mixed_members({}, {1, 1 << 20});
  two[0].shards = two[1].shards = 4;
  EXPECT_THAT(tree_counts(two, node_shares(two)), ElementsAre(0, 4)) << "65536 units, no more";
  EXPECT_THAT(tree_counts(two, {2, 65534}), ElementsAre(2, 4));
}

}  // namespace
}  // namespace tally::control
