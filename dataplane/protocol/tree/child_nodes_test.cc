#include "dataplane/protocol/tree/child_nodes.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using wire::VertexKind;
using wire::VertexMessage;

class ChildNodesTest : public UnitsTest {
 protected:
  Tile request(Job& job, PoolIndex index, std::uint64_t first, std::uint32_t handle = 0) {
    Tile tile;
    tile.operation = index;
    tile.handle = handle;
    tile.first = first;
    tile.count = 4096;
    const Stretch stretch = stretch_at(job.table[index].shape, first);
    children_.request(job, job.table[index], stretch, tile);
    ChildNodes::add_below(job, job.table[index], stretch, tile);
    return tile;
  }
  // Acts as an engine that has pushed the result.
  void pass_down(Job& job, Tile& tile, std::uint32_t buffer) {
    tile.below[0].buffer = buffer;
    children_.passed_down(job, tile, 0);
  }
};

TEST_F(ChildNodesTest, ABufferIsInUseUntilTheTileEnds) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  const Tile first = request(job, index, 0);
  const Tile second = request(job, index, 4096);
  EXPECT_NE(first.sources[0].offset, second.sources[0].offset);
  EXPECT_EQ(first.partials, 1u);
  EXPECT_EQ(first.sources[0].member, kChildNode);
  EXPECT_TRUE(job.child_nodes[0].free_up[0].empty());
  ChildNodes::release_up(job, first);
  EXPECT_EQ(request(job, index, 8192).sources[0].offset, first.sources[0].offset);
}

TEST_F(ChildNodesTest, APartialSumIsAnsweredOnce) {
  Job& job = make(true);
  request(job, add_ready(job), 0, 77);
  VertexMessage ready = only<VertexMessage>(false);
  EXPECT_EQ(ready.kind, VertexKind::kTileWanted);
  ready.kind = VertexKind::kTileReady;
  ready.flags = wire::kVoid;
  EXPECT_EQ(children_.tile_ready(job, child_node(job), ready), Status::kProtocol)
      << "the operation has not failed";
  ready.flags = 0;
  ASSERT_EQ(children_.tile_ready(job, child_node(job), ready), Status::kOk);
  ASSERT_EQ(outbox_.tile_events().size(), 1u);
  EXPECT_EQ(outbox_.tile_events()[0].handle, 77u);
  EXPECT_EQ(children_.tile_ready(job, child_node(job), ready), Status::kProtocol);
}

TEST_F(ChildNodesTest, AResultWaitsForABuffer) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  Tile tile = request(job, index, 0);
  outbox_.clear_tree_messages();
  for (int i = 0; i < 3; ++i) children_.hand_down(job, tile, 0, kNoParent, kNone);
  ASSERT_EQ(outbox_.tile_events().size(), 2u) << "as many as there are down buffers";
  const std::uint32_t used = outbox_.tile_events()[0].buffer;
  outbox_.clear_tile_events();
  pass_down(job, tile, used);
  EXPECT_EQ(job.table[index].placing, 1u);
  VertexMessage placed = only<VertexMessage>(false);
  EXPECT_EQ(placed.kind, VertexKind::kTileResult);
  placed.kind = VertexKind::kTilePlaced;
  PoolIndex operation = kNone;
  ASSERT_EQ(children_.tile_placed(job, child_node(job), placed, operation), Status::kOk);
  EXPECT_EQ(operation, index);
  EXPECT_EQ(job.table[index].placing, 0u);
  ASSERT_EQ(outbox_.tile_events().size(), 1u);
  EXPECT_EQ(outbox_.tile_events()[0].buffer, used);
  EXPECT_EQ(children_.tile_placed(job, child_node(job), placed, operation), Status::kProtocol);
  EXPECT_EQ(operation, kNone);
}

TEST_F(ChildNodesTest, AFailedOperationWaitsForNoBuffers) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  const Tile tile = request(job, index, 0);
  for (int i = 0; i < 3; ++i) children_.hand_down(job, tile, 0, kNoParent, kNone);
  outbox_.clear_tile_events();
  children_.stop_waiting(job, index);
  ASSERT_EQ(outbox_.tile_events().size(), 1u);
  EXPECT_EQ(outbox_.tile_events()[0].status, Status::kCancelled);
}

TEST_F(ChildNodesTest, ALostChildNodeAnswersEverything) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  Tile tile = request(job, index, 0);
  for (int i = 0; i < 3; ++i) children_.hand_down(job, tile, 0, kNoParent, kNone);
  pass_down(job, tile, outbox_.tile_events()[0].buffer);
  outbox_.clear_tile_events();
  children_.drop(job, child_node(job), Status::kPeerLost);
  ASSERT_EQ(outbox_.tile_events().size(), 2u) << "the partial sum, and the push that waits";
  for (const TileEvent& event : outbox_.tile_events()) EXPECT_EQ(event.status, Status::kPeerLost);
  EXPECT_EQ(job.table[index].placing, 0u);
}

TEST_F(ChildNodesTest, ResultsOfAParentFreeItsBufferToo) {
  Job& job = make(false);
  Tile tile = request(job, add_ready(job), 0);
  outbox_.clear_tree_messages();
  ASSERT_EQ(parents_.tile_result(job, 0, message(VertexKind::kTileResult)), Status::kOk);
  ++job.parents[0].down[0].pending;
  children_.hand_down(job, tile, 0, 0, 0);
  pass_down(job, tile, outbox_.tile_events()[0].buffer);
  VertexMessage placed = only<VertexMessage>(false);
  parents_.placed(job, 0, 0);  // this shard's tile
  PoolIndex operation = kNone;
  ASSERT_EQ(children_.tile_placed(job, child_node(job), placed, operation), Status::kOk);
  EXPECT_EQ(operation, kNone) << "the root decides";
  EXPECT_EQ(only<VertexMessage>(true).kind, VertexKind::kTilePlaced);
}

}  // namespace
}  // namespace tally::protocol
