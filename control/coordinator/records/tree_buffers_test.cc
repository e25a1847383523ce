#include "control/coordinator/records/tree_buffers.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

PlanNode node(std::uint32_t height, std::uint16_t ranks, std::uint16_t child_nodes) {
  protocol::Vertex vertex = protocol::star(0, ranks);
  vertex.height = height;
  for (std::uint16_t i = 0; i < child_nodes; ++i) vertex.child_nodes.push_back({i, {}});
  PlanNode made;
  made.vertices = {vertex};
  return made;
}

TEST(BufferLayout, StarsNeedNone) {
  EXPECT_EQ(buffer_layout({node(1, 8, 0), node(1, 9, 0)}, {}).total_bytes(), 0U);
}

TEST(BufferLayout, AClassForEachHeightAboveStars) {
  EXPECT_EQ(buffer_layout({node(1, 2, 0), node(2, 2, 1)}, {}).classes, 1U);
  EXPECT_EQ(buffer_layout({node(4, 0, 2), node(1, 2, 0)}, {}).classes, 3U);
}

TEST(BufferLayout, MoreChildrenMeanSmallerBuffers) {
  std::uint64_t last = kMostBufferBytes;
  for (const std::uint16_t ranks : {1, 6, 7, 20, 63, 64, 255}) {
    const auto layout = buffer_layout({node(2, ranks, 1)}, {});
    EXPECT_LE(layout.bytes, last);
    EXPECT_GE(layout.bytes, kLeastBufferBytes);
    EXPECT_EQ(layout.bytes % kLeastBufferBytes, 0U);
    EXPECT_LE(layout.bytes * (ranks + 1U), most_tile_bytes(ranks + 1U));
    last = layout.bytes;
  }
  EXPECT_EQ(last, kLeastBufferBytes);
  EXPECT_EQ(buffer_layout({node(2, 1, 1)}, {}).bytes, kMostBufferBytes);
}

TEST(BufferLayout, StarsBesideDeeperTreesDoNotMakeTheirBuffersSmaller) {
  EXPECT_EQ(buffer_layout({node(2, 1, 1), node(1, 200, 0)}, {}).bytes, kMostBufferBytes);
  PlanNode below = node(1, 200, 0);
  below.vertices[0].parent = 0;
  EXPECT_EQ(buffer_layout({node(2, 1, 1), below}, {}).bytes, kLeastBufferBytes);
}

TEST(BufferLayout, ThePlanSetsTheirNumberAndSize) {
  const auto layout = buffer_layout({node(3, 2, 1)}, {64 << 10, 24});
  EXPECT_EQ(layout, (protocol::BufferLayout{64 << 10, 24, 24, 2}));
}

}  // namespace
}  // namespace tally::control
