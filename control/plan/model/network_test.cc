#include "control/plan/model/network.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// The vertices on the way, both ends included; empty when there is none.
std::vector<VertexId> way(const Network& network, VertexId from, VertexId to) {
  Routes routes(network);
  std::vector<VertexId> vertices;
  const bool found = routes.walk(from, to, [&](std::uint32_t link) {
    vertices.insert(vertices.begin(), network.links[link].to);
  });
  if (found) vertices.insert(vertices.begin(), from);
  return vertices;
}

using Way = std::vector<VertexId>;

TEST(Network, AStarJoinsEveryMachineToOneSwitch) {
  auto machines = equal_machines(2, 1, 5);
  machines[1].in = 3;
  const Network network = star_network(machines);
  ASSERT_EQ(network.machines(), 3u);
  ASSERT_EQ(network.vertices.size(), 4u);
  EXPECT_EQ(network.vertices[3].role, Role::kSwitch);
  ASSERT_EQ(network.links.size(), 6u);
  EXPECT_EQ(network.links[3].to, 1u);
  EXPECT_EQ(network.links[3].capacity, 3);
  EXPECT_EQ(way(network, 0, 2), (Way{0, 3, 2}));
}

TEST(Network, VerticesHaveNamesForMessages) {
  const Network network = star_network({machine(Role::kWorker, 1, "a"), machine(Role::kHelper, 1)});
  EXPECT_EQ(network.name_of(0), "a");
  EXPECT_EQ(network.name_of(1), "helper 1");
  EXPECT_EQ(network.name_of(2), "switch 2");
}

TEST(Network, IsReachedOverLinksInTheirDirection) {
  Network network;
  network.vertices = equal_machines(4, 0);
  network.links = {{0, 1, 1}, {1, 2, 1}, {3, 1, 1}};
  EXPECT_EQ(reached(network, 1, true), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(reached(network, 1, false), (std::vector<bool>{true, true, false, true}));
}

TEST(Routes, TakeTheFewestHopsAndThenTheLowestIds) {
  Network network;
  network.vertices = equal_machines(2, 0);
  network.vertices.resize(7, Vertex{.role = Role::kSwitch});
  // 0-6-1, 0-4-1 and 0-2-3-1.
  for (const auto& [from, to] : std::vector<std::pair<VertexId, VertexId>>{
           {0, 6}, {6, 1}, {0, 4}, {4, 1}, {0, 2}, {2, 3}, {3, 1}}) {
    network.links.push_back({from, to, 1});
  }
  EXPECT_EQ(way(network, 0, 1), (Way{0, 4, 1}));
  network.links.push_back({0, 1, 1});
  EXPECT_EQ(way(network, 0, 1), (Way{0, 1}));
}

TEST(Routes, PassNoMachineAndFollowDirections) {
  Network network;
  network.vertices = equal_machines(3, 0);
  network.links = {{0, 1, 1}, {1, 2, 1}};
  EXPECT_EQ(way(network, 0, 1), (Way{0, 1}));
  EXPECT_EQ(way(network, 0, 2), Way{});
  EXPECT_EQ(way(network, 1, 0), Way{});
  EXPECT_EQ(way(network, 1, 1), Way{});
}

}  // namespace
}  // namespace tally::plan
