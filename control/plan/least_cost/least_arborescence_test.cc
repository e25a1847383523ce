#include "control/plan/least_cost/least_arborescence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/support/control/all_trees.h"

namespace tally::plan {
namespace {

TEST(LeastArborescence, IsTheLeastOfAllRootedTrees) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::mt19937 random(9);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t size = 1 + random() % 5;
    const Square costs = random_costs(random, size, 10);
    const auto root = static_cast<VertexId>(random() % size);
    std::vector<bool> in(size);
    std::vector<VertexId> members;
    for (VertexId i = 0; i < size; ++i) {
      in[i] = i == root || random() % 4 != 0;
      if (in[i]) members.push_back(i);
    }
    double least = kNever;
    for_each_rooted_tree(size, members, root, [&](const Parents& parents) {
      double cost = 0;
      for (VertexId i = 0; i < parents.size(); ++i) {
        if (parents[i] >= 0) cost += costs.at(i, static_cast<VertexId>(parents[i]));
      }
      least = std::min(least, cost);
    });
    EXPECT_EQ(least_arborescence_cost(costs, in, root), least);
  }
}

}  // namespace
}  // namespace tally::plan
