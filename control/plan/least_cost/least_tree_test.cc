#include "control/plan/least_cost/least_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/support/control/all_trees.h"

namespace tally::plan {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// The least cost of all trees.
double least_of_all(const Square& costs, const std::vector<bool>& must) {
  std::vector<VertexId> workers;
  for (VertexId i = 0; i < must.size(); ++i) {
    if (must[i]) workers.push_back(i);
  }
  double least = kNone;
  for_each_member_set(must.size(), workers, [&](const std::vector<VertexId>& members) {
    for_each_rooted_tree(must.size(), members, workers[0], [&](const Parents& parents) {
      double cost = 0;
      for (VertexId i = 0; i < parents.size(); ++i) {
        if (parents[i] >= 0) cost += costs.at(i, static_cast<VertexId>(parents[i]));
      }
      least = std::min(least, cost);
    });
  });
  return least;
}

TEST(LeastTree, IsTheLeastOfAllTrees) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t size = 2 + random() % 4;
    const auto values = 2 + random() % 6;  // few, so that vertices are alike
    Square costs(size, kNone);
    std::vector<bool> must(size);
    std::vector<std::uint32_t> blocks(size);
    for (std::size_t i = 0; i < size; ++i) {
      must[i] = i == 0 || random() % 2 == 0;
      blocks[i] = static_cast<std::uint32_t>(random() % 3);
      for (std::size_t j = 0; j < i; ++j) {
        const double cost = static_cast<double>(random() % values);
        costs.at(i, j) = costs.at(j, i) = random() % 6 == 0 ? kNone : cost;
      }
    }
    EXPECT_EQ(least_tree_cost(costs, must, blocks), least_of_all(costs, must));
  }
}

// Racks of workers and helpers, whose costs depend on the racks' kinds. The same number must come
// out with and without blocks, which only shorten the search.
TEST(LeastTree, CountsAlikeRacksOnce) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 50; ++trial) {
    SCOPED_TRACE(trial);
    constexpr std::size_t kRacks = 3, kPerRack = 4;  // two workers, two helpers
    const auto cost = [&] { return static_cast<double>(1 + random() % 8); };
    const double worker = cost(), helper = cost(), up = cost();
    Square costs(kRacks * kPerRack, kNone);
    std::vector<bool> must;
    std::vector<std::uint32_t> blocks, alone;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      must.push_back(i % kPerRack < 2);
      blocks.push_back(static_cast<std::uint32_t>(i / kPerRack));
      alone.push_back(static_cast<std::uint32_t>(i));
      for (std::size_t j = 0; j < costs.size(); ++j) {
        const double ends =
            (i % kPerRack < 2 ? worker : helper) + (j % kPerRack < 2 ? worker : helper);
        if (i != j) costs.at(i, j) = ends + (i / kPerRack == j / kPerRack ? 0 : 2 * up);
      }
    }
    EXPECT_EQ(least_tree_cost(costs, must, blocks), least_tree_cost(costs, must, alone));
  }
}

TEST(LeastTree, IsInfiniteWhereNoTreeIs) {
  const std::vector<std::uint32_t> blocks = {0, 1};
  EXPECT_EQ(least_tree_cost(Square(2, kNone), {true, true}, blocks), kNone);
  EXPECT_EQ(least_tree_cost(Square(2, kNone), {true, false}, blocks), 0);
}

// 40 helpers that all differ: the bound is that of the joins, which no tree is below.
TEST(LeastTree, IsALowerBoundWithManyHelpers) {
  std::mt19937 random(7);
  constexpr std::size_t kWorkers = 4, kSize = 44;
  Square costs(kSize, kNone);
  std::vector<bool> must;
  std::vector<std::uint32_t> blocks;
  for (std::size_t i = 0; i < kSize; ++i) {
    must.push_back(i < kWorkers);
    blocks.push_back(static_cast<std::uint32_t>(i));
    for (std::size_t j = 0; j < i; ++j) {
      costs.at(i, j) = costs.at(j, i) = static_cast<double>(100 + random() % 100);
    }
  }
  const double found = least_tree_cost(costs, must, blocks);
  EXPECT_GE(found, 100 * (kWorkers - 1));
  double with_workers_alone = 0;  // Prim
  std::vector<double> key(kWorkers, kNone);
  std::vector<bool> in(kWorkers, false);
  key[0] = 0;
  for (std::size_t step = 0; step < kWorkers; ++step) {
    std::size_t next = kWorkers;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      if (!in[i] && (next == kWorkers || key[i] < key[next])) next = i;
    }
    in[next] = true;
    with_workers_alone += key[next];
    for (std::size_t i = 0; i < kWorkers; ++i) key[i] = std::min(key[i], costs.at(next, i));
  }
  EXPECT_LE(found, with_workers_alone);
}

}  // namespace
}  // namespace tally::plan
