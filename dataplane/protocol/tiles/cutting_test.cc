#include "dataplane/protocol/tiles/cutting.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using CuttingTest = UnitsTest;

TEST(Backlog, StreamsFromItsThresholdOn) {
  Backlog backlog(100);
  backlog.add(60);
  EXPECT_FALSE(backlog.streams());
  EXPECT_TRUE(backlog.streams(40));
  backlog.add(40);
  EXPECT_TRUE(backlog.streams());
  backlog.remove(100);
  EXPECT_TRUE(backlog.empty());
}

TEST_F(CuttingTest, ATileFitsTheBufferAndTheAllowance) {
  Job& job = make(true);
  const OperationRecord& operation = job.table[add_ready(job)];
  EXPECT_EQ(tile_elements(config_, job, operation, UINT64_MAX, false), (32u << 10) / 4);
  const std::uint64_t slow = 3 * 4 * 4 * 2 * kCutElements;  // four tiles of three inputs
  EXPECT_EQ(tile_elements(config_, job, operation, slow, false), 2 * kCutElements);
  EXPECT_EQ(tile_elements(config_, job, operation, 0, false), kCutElements) << "at least one cut";
  job.table[0].shape.type = ElementType::kF16;
  EXPECT_EQ(tile_elements(config_, job, operation, UINT64_MAX, false), (32u << 10) / 4)
      << "its partial sums are f32";
}

TEST_F(CuttingTest, FineTilesAreSmall) {
  Job& job = make(true);
  job.spec.buffers.bytes = 1 << 20;
  const OperationRecord& operation = job.table[add_ready(job)];
  const std::uint64_t coarse = tile_elements(config_, job, operation, UINT64_MAX, false);
  const std::uint64_t fine = tile_elements(config_, job, operation, UINT64_MAX, true);
  EXPECT_LT(fine, coarse);
  EXPECT_LE(fine * 4 * 3, std::max(TileSizing::kFineTile, kCutElements * 4 * 3));
}

TEST_F(CuttingTest, ATileOnItsWayDownPullsNothing) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  const OperationRecord& operation = job.table[index];
  const Stretch stretch = stretch_at(operation.shape, 4096);
  Tile tile;
  begin_tile(job, index, 4096, 1024, tile);
  add_ranks(job, operation, stretch, true, tile);
  EXPECT_EQ(tile.sources.size(), 2u) << "child nodes are not ranks";
  EXPECT_EQ(tile.sources[1].offset, 4096u * 4);
  EXPECT_EQ(tile.landings.size(), 2u);
  begin_tile(job, index, 4096, 1024, tile);
  add_ranks(job, operation, stretch, false, tile);
  EXPECT_TRUE(tile.sources.empty());
  EXPECT_EQ(tile.landings.size(), 2u);
  EXPECT_EQ(tile.members, (std::vector<SessionId>{0, 1}));
}

TEST(MoveBytes, CountsBytesInsteadOfElements) {
  Tile tile;
  tile.type = ElementType::kF64;
  tile.count = 10;
  tile.reduction = Operation::kMax;
  move_bytes(tile);
  EXPECT_EQ(tile.count, 80u);
  EXPECT_EQ(tile.type, ElementType::kU8);
  EXPECT_EQ(tile.reduction, Operation::kSum);
}

}  // namespace
}  // namespace tally::protocol
