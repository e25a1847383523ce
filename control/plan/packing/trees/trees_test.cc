// The searches for cheap trees, each against all possibilities, and what trees become afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "control/plan/least_cost/least_arborescence.h"
#include "control/plan/least_cost/least_tree.h"
#include "control/plan/model/tree.h"
#include "control/plan/packing/places/choices.h"
#include "control/plan/packing/trees/arborescence.h"
#include "control/plan/packing/trees/fan_out.h"
#include "control/plan/packing/trees/group_tree.h"
#include "control/plan/packing/trees/images.h"
#include "control/plan/packing/trees/rooting.h"
#include "tests/support/control/all_trees.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(CheapestArborescence, IsThatOfTheCheck) {
  std::mt19937 random(31);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t size = 1 + random() % 12;
    const Square prices = random_costs(random, size, 20);
    const auto root = static_cast<VertexId>(random() % size);
    std::vector<bool> in(size);
    std::vector<VertexId> members;
    for (VertexId i = 0; i < size; ++i) {
      in[i] = i == root || random() % 4 != 0;
      if (in[i]) members.push_back(i);
    }
    const double least = least_arborescence_cost(prices, in, root);
    const auto found = cheapest_arborescence(prices, members, root);
    ASSERT_EQ(found.has_value(), least < kNever);
    if (!found) continue;
    EXPECT_DOUBLE_EQ(found->price, least);
    const auto shape = Shape::of(found->parents, "up");
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    EXPECT_EQ(shape->root(), root);
    for (VertexId i = 0; i < size; ++i) EXPECT_EQ(shape->has(i), in[i]);
  }
}

TEST(Choices, CountAlikeRacksOnce) {
  const Network network = rack_network(3, 1, 2, 1e3, 1e3);
  Routes routes(network);
  std::vector<bool> workers(network.machines(), false);
  for (const VertexId id : workers_of(network)) workers[id] = true;
  const Symmetry symmetry = find_symmetry(routes, workers);
  // Of three racks each has 0, 1 or 2 helpers: 10 multisets.
  EXPECT_EQ(number_of_choices(symmetry), 10);
  std::size_t visits = 0;
  for_each_choice(symmetry, [&](const Counts& counts) {
    ++visits;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Group& group = symmetry.groups[i];
      EXPECT_LE(counts[i], group.machines.size());
      EXPECT_GE(counts[i], group.is_worker ? group.machines.size() : 0);
    }
  });
  EXPECT_EQ(visits, 10u);
  EXPECT_EQ(number_of_choices(no_symmetry(workers)), 64);
}

// Trees by groups against trees by machines, and against the check of certificates.
TEST(GroupTree, IsACheapestTree) {
  std::mt19937 random(32);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Network network =
        rack_network(1 + random() % 3, 1 + random() % 3, random() % 3, 1e3, 1e3);
    Routes routes(network);
    std::vector<bool> workers(network.machines(), false);
    for (const VertexId id : workers_of(network)) workers[id] = true;
    const Symmetry symmetry = find_symmetry(routes, workers);
    // Prices at random, but alike for alike racks, as the prices of edges are.
    const auto price = [&] { return static_cast<double>(1 + random() % 9); };
    const double worker = price(), helper = price(), up = price();
    const auto end = [&](std::size_t group) {
      return symmetry.groups[group].is_worker ? worker : helper;
    };
    Square groups(symmetry.groups.size()), machines(network.machines(), kNever);
    for (std::size_t a = 0; a < groups.size(); ++a) {
      for (std::size_t b = 0; b < groups.size(); ++b) {
        const bool is_far = symmetry.groups[a].rack != symmetry.groups[b].rack;
        groups.at(a, b) = end(a) + end(b) + (is_far ? 2 * up : 0);
      }
    }
    std::vector<std::uint32_t> alone;
    for (std::uint32_t a = 0; a < machines.size(); ++a) {
      alone.push_back(a);
      for (std::size_t b = 0; b < machines.size(); ++b) {
        if (a != b) machines.at(a, b) = groups.at(symmetry.group_of[a], symmetry.group_of[b]);
      }
    }
    const GroupTree tree(symmetry, groups);
    double least = kNever;
    for_each_choice(symmetry, [&](const Counts& counts) {
      const double found = tree.price(counts);
      least = std::min(least, found);
      double sum = 0;
      std::size_t present = 0;
      for (const std::size_t count : counts) present += count;
      const auto edges = tree.edges(counts);
      for (const auto& [a, b] : edges) sum += machines.at(a, b);
      EXPECT_EQ(edges.size() + 1, present);
      EXPECT_DOUBLE_EQ(sum, found);
    });
    EXPECT_DOUBLE_EQ(least, least_tree_cost(machines, workers, alone));
    EXPECT_LE(tree.price_of_joins(), least);
  }
}

const auto kSamePrice = [](VertexId, VertexId) { return 1.0; };

TEST(Rooting, TakesTheCentreOfAPath) {
  std::vector<TreeEdge> path;
  for (VertexId id = 0; id + 1 < 7; ++id) path.push_back({id, id + 1});
  const Parents parents =
      root_at_centre(7, path, std::vector<bool>(7, true), kAnyHeight, kSamePrice);
  EXPECT_EQ(parents, (Parents{1, 2, 3, -1, 3, 4, 5}));
  EXPECT_EQ(levels_of(parents), 3u);
}

TEST(Rooting, DropsHelpersThatServeNobody) {
  // 4 - 0 - 1 - 2 - 3 - 5: helpers 3, 4 and 5 hang at the ends.
  const std::vector<TreeEdge> edges = {{4, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 5}};
  const std::vector<bool> workers = {true, true, true, false, false, false};
  EXPECT_EQ(root_at_centre(6, edges, workers, kAnyHeight, kSamePrice),
            (Parents{1, -1, 1, -2, -2, -2}));
}

TEST(Rooting, MovesMachinesUpToTheHeightThatIsServed) {
  std::mt19937 random(33);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t size = 2 + random() % 30;
    std::vector<TreeEdge> edges;
    for (VertexId id = 1; id < size; ++id) {
      edges.push_back(
          {id, id - 1 - static_cast<VertexId>(random() % std::min<std::size_t>(id, 2))});
    }
    const auto height = static_cast<std::uint32_t>(1 + random() % 4);
    const std::vector<bool> workers(size, true);
    const Parents parents = root_at_centre(size, edges, workers, height, kSamePrice);
    const auto shape = Shape::of(parents, "up");
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    EXPECT_LE(shape->depth(), height);
    EXPECT_EQ(shape->order().size(), size);
    EXPECT_EQ(levels_of(parents), shape->depth());
  }
}

// Racks of one worker each: a star at the first worker.
TEST(FanOut, DividesAStarOverRacks) {
  const Network network = rack_network(40, 1, 0, 1e3, 1e3);
  Routes routes(network);
  const Symmetry symmetry = find_symmetry(routes, std::vector<bool>(40, true));
  Parents star = star_parents(40, workers_of(network), 0);
  Parents few = star;
  divide_fan_out(few, symmetry, 50, 4);
  EXPECT_EQ(few, star) << "50 children are few enough";
  divide_fan_out(star, symmetry, 16, 3);
  const auto shape = Shape::of(star, "up");
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->depth(), 3u);
  for (VertexId id = 0; id < 40; ++id) EXPECT_LE(shape->children(id).size(), 3u);
}

TEST(Images, DivideBytesEvenlyOverAlikeMachines) {
  const Network network = rack_network(4, 4, 1, 1e3, 1e3);
  const auto workers = workers_of(network);
  const Problem even(network, workers, UseSymmetry::kYes);
  const Problem single(network, workers, UseSymmetry::kNo);
  const std::vector<Tree> star = {{0, star_parents(even.machines(), workers, workers[0]), {}}};
  const auto spread = Images(even).spread(star, std::vector<double>{1}, 16);
  ASSERT_EQ(spread.trees.size(), 16u) << "a star at every worker";
  std::vector<double> busy(single.rows().size(), 0);
  for (std::size_t i = 0; i < spread.trees.size(); ++i) {
    EXPECT_DOUBLE_EQ(spread.shares[i], 1.0 / 16);
    for (const auto& [row, seconds] : single.rows().use_of(spread.trees[i])) {
      busy[row] += spread.shares[i] * seconds;
    }
  }
  double most = 0;
  for (const RowUse& use : even.rows().use_of(star[0])) most = std::max(most, use.seconds);
  EXPECT_NEAR(*std::max_element(busy.begin(), busy.end()), most, 1e-12);
}

}  // namespace
}  // namespace tally::plan
