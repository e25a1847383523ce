#include "control/plan/packing/places/symmetry.h"

#include <gtest/gtest.h>

#include "control/plan/packing/places/rows.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

std::vector<bool> mark_workers(const Network& network) {
  std::vector<bool> marks;
  for (std::size_t id = 0; id < network.machines(); ++id) {
    marks.push_back(network.vertices[id].role == Role::kWorker);
  }
  return marks;
}

Symmetry symmetry_of(const Network& network) {
  Routes routes(network);
  return find_symmetry(routes, mark_workers(network));
}

bool is_two_way(const Network& network) {
  Routes routes(network);
  return is_two_way(routes, find_symmetry(routes, mark_workers(network)));
}

TEST(Symmetry, FindsMachinesAndRacksThatCanChangePlaces) {
  const Symmetry found = symmetry_of(rack_network(4, 3, 2, 1e3, 1e3));
  ASSERT_EQ(found.groups.size(), 8u);
  ASSERT_EQ(found.racks.size(), 4u);
  ASSERT_EQ(found.sets.size(), 1u);
  EXPECT_EQ(found.sets[0].size(), 4u);
  for (const Rack& rack : found.racks) {
    ASSERT_EQ(rack.groups.size(), 2u);
    EXPECT_EQ(
        found.groups[rack.groups[0]].machines.size() + found.groups[rack.groups[1]].machines.size(),
        5u);
  }
  EXPECT_EQ(found.group_of[0], found.group_of[2]);
  EXPECT_NE(found.group_of[0], found.group_of[3]) << "a helper";
  EXPECT_NE(found.group_of[0], found.group_of[5]) << "another rack";
}

TEST(Symmetry, OtherSpeedsMakeOtherGroupsAndSets) {
  Network network = rack_network(4, 3, 0, 1e3, 1e3);
  network.vertices[1].in = network.vertices[1].out = 2e3;  // its link is as before
  Symmetry found = symmetry_of(network);
  EXPECT_EQ(found.groups.size(), 5u);
  ASSERT_EQ(found.sets.size(), 2u);
  network = rack_network(4, 3, 0, 1e3, 1e3);
  network.links.back().capacity = 9e2;  // down to the last rack
  found = symmetry_of(network);
  EXPECT_EQ(found.groups.size(), 4u);
  ASSERT_EQ(found.sets.size(), 2u);
  EXPECT_EQ(found.sets[0].size(), 3u);
}

TEST(Symmetry, MachinesWithSeveralLinksAreAlone) {
  Network network = rack_network(2, 2, 0, 1e3, 1e3);
  join(network, 0, 1, 10);
  const Symmetry found = symmetry_of(network);
  EXPECT_EQ(found.groups.size(), 3u);
  EXPECT_EQ(found.sets.size(), 3u) << "the other rack, and two machines";
}

// Two racks without a common switch above reach each other through the first of two alike racks.
// These two cannot change places, because only one is on the way.
TEST(Symmetry, RacksOnTheWayOfOthersAreNoSet) {
  Network network{equal_machines(4, 0, 1e3), {}};
  network.vertices.resize(10, Vertex{.role = Role::kSwitch});
  for (VertexId id = 0; id < 4; ++id) join(network, id, 4 + id, 1e3);
  join(network, 4, 8, 1e3);            // rack 0 below switch 8
  join(network, 5, 9, 1e3);            // rack 1 below switch 9
  for (const VertexId hub : {6, 7}) {  // racks 2 and 3 below both
    join(network, hub, 8, 1e3);
    join(network, hub, 9, 1e3);
  }
  EXPECT_EQ(symmetry_of(network).sets.size(), 4u);
}

TEST(Symmetry, ANetworkIsTheSameBothWaysOrNot) {
  Network network = rack_network(2, 2, 1, 1e3, 1e3);
  EXPECT_TRUE(is_two_way(network));
  Network slow = network;
  slow.vertices[4].sum = 10;
  EXPECT_FALSE(is_two_way(slow));
  slow = network;
  slow.vertices[4].in = 2e3;
  EXPECT_FALSE(is_two_way(slow));
  slow = network;
  slow.links[3].capacity /= 2;
  EXPECT_FALSE(is_two_way(slow));
  slow = network;
  slow.links.pop_back();
  EXPECT_FALSE(is_two_way(slow));
}

// Of two equally short routes the one of the lowest ids is taken, which is not the same one back.
TEST(Symmetry, ARouteBackThatDiffersIsNotTheSameBothWays) {
  Network network{equal_machines(2, 0, 1e3), {}};
  network.vertices.resize(6, Vertex{.role = Role::kSwitch});
  // 0 - 2 - 5 - 1 and 0 - 4 - 3 - 1.
  for (const auto& [a, b] :
       std::vector<std::pair<VertexId, VertexId>>{{0, 2}, {2, 5}, {5, 1}, {0, 4}, {4, 3}, {3, 1}}) {
    join(network, a, b, 500);
  }
  EXPECT_FALSE(is_two_way(network));
}

TEST(Rows, JoinPassagesThatCanChangePlaces) {
  const Network network = rack_network(2, 3, 1, 1e3, 700);
  Routes routes(network);
  const Passages passages(routes);
  const Symmetry symmetry = find_symmetry(routes, mark_workers(network));
  const Rows rows(passages, symmetry, true);
  // Links of workers, of helpers, and of racks. NICs are as fast as their only links.
  ASSERT_EQ(rows.size(), 3u);
  double total = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) total += rows.capacity(row);
  EXPECT_EQ(total, 6 * 2e3 + 2 * 2e3 + 2 * 1400);

  const Use use = rows.use_of({0, star_parents(8, workers_of(network), 3), {}});  // the helper
  ASSERT_EQ(use.size(), 3u);
  double helper = 0, worker = 0, rack = 0;
  for (const auto& [row, seconds] : use) {
    (rows.capacity(row) == 12e3 ? worker : rows.capacity(row) == 4e3 ? helper : rack) = seconds;
  }
  EXPECT_DOUBLE_EQ(worker, 1 / 1e3);
  EXPECT_DOUBLE_EQ(helper, 6 / 2e3) << "half of the bytes, because the other helper has none";
  EXPECT_DOUBLE_EQ(rack, 3 / 700.0);
}

TEST(Rows, PricesOfPassagesSumToThoseOfTheirRows) {
  const Network network = rack_network(3, 2, 1, 1e9, 7e8);
  Routes routes(network);
  const Passages passages(routes);
  const Rows rows(passages, find_symmetry(routes, mark_workers(network)), true);
  std::vector<double> prices = {0.1, 0.7, 0.2};
  ASSERT_EQ(rows.size(), prices.size());
  const auto of_passages = rows.passage_prices(prices);
  double sum = 0;
  for (std::size_t i = 0; i < of_passages.size(); ++i) sum += of_passages[i] * passages.capacity(i);
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_LE(sum, 1);
}

}  // namespace
}  // namespace tally::plan
