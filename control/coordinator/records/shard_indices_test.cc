#include "control/coordinator/records/shard_indices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::control {
namespace {

using ::testing::ElementsAre;

protocol::Vertex vertex_of(std::uint32_t tree, std::uint32_t parent = protocol::kNoParent) {
  protocol::Vertex vertex;
  vertex.tree = tree;
  vertex.parent = parent;
  return vertex;
}

TEST(ShardIndices, TreesTakeTurns) {
  const std::vector vertices = {vertex_of(1), vertex_of(4), vertex_of(5, 0)};
  EXPECT_THAT(shard_indices(vertices, protocol::even_partition(6, 0), 2), ElementsAre(0, 1, 0));
}

TEST(ShardIndices, TheRootOfResultsIsWhereThatOfItsSumsIs) {
  protocol::Partition plan;
  plan.trees = 6;
  plan.result_trees = {3, 4, 5, protocol::kNoTree, protocol::kNoTree, protocol::kNoTree};
  const std::vector roots = {vertex_of(0), vertex_of(1), vertex_of(4)};
  EXPECT_THAT(shard_indices(roots, plan, 3), ElementsAre(0, 1, 1));
  const std::vector inner = {vertex_of(0), vertex_of(1), vertex_of(4, 0)};
  EXPECT_THAT(shard_indices(inner, plan, 3), ElementsAre(0, 1, 2)) << "its root is elsewhere";
}

}  // namespace
}  // namespace tally::control
