#include "control/coordinator/layout/left_out.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

Layout with(std::vector<protocol::Vertex> vertices) {
  Layout layout;
  for (auto& vertex : vertices) {
    layout.nodes.emplace_back().trees = {vertex.tree};
    layout.nodes.back().vertices = {std::move(vertex)};
  }
  return layout;
}

using Ranks = std::vector<std::uint16_t>;

TEST(LeftOut, RanksAreNoChildrenOfAStar) {
  Layout layout = with({protocol::star(0, 4), protocol::star(1, 4)});
  ASSERT_TRUE(leave_out({1, 3}, layout));
  for (const PlanNode& node : layout.nodes) EXPECT_EQ(node.vertices[0].ranks, Ranks({0, 2}));
}

TEST(LeftOut, NorBelowAChildNode) {
  protocol::Vertex root{.height = 2, .ranks = {0, 1}, .child_nodes = {{0, {2, 3}}}};
  protocol::Vertex inner{.ranks = {2, 3}, .parent = 0};
  Layout layout = with({root, inner});
  ASSERT_TRUE(leave_out({1, 2}, layout));
  EXPECT_EQ(layout.nodes[0].vertices[0].ranks, Ranks({0}));
  EXPECT_EQ(layout.nodes[0].vertices[0].child_nodes[0].ranks, Ranks({3}));
  EXPECT_EQ(layout.nodes[1].vertices[0].ranks, Ranks({3}));
}

TEST(LeftOut, AVertexKeepsAChild) {
  Layout star = with({protocol::star(0, 2)});
  EXPECT_FALSE(leave_out({0, 1}, star));
  protocol::Vertex root{.height = 2, .ranks = {0, 1}, .child_nodes = {{0, {2, 3}}}};
  Layout tree = with({root});
  EXPECT_FALSE(leave_out({2, 3}, tree));
  tree = with({root});
  EXPECT_TRUE(leave_out({0, 1}, tree)) << "the child node is a child";
}

}  // namespace
}  // namespace tally::control
