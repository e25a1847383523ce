// The tiles that operations are cut into: what they cover, whose memory they touch.
#include "tests/support/protocol/aggregator_fixture.h"

#include <algorithm>

namespace tally::protocol {
namespace {

using wire::Kind;
using wire::Notice;

TEST_F(AggregatorTest, TilesCoverThePartOnce) {
  AggregatorConfig config;
  config.tile_bytes = 16 << 10;
  reset(config);
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1, 0, 10'001));
  Tile tile;
  std::uint64_t next = 0;
  std::vector<Tile> tiles;
  while (aggregator_->tiles().start_tile(tile)) {
    EXPECT_EQ(tile.first, next);
    EXPECT_EQ(tile.sources[1].offset, next * 4);
    EXPECT_EQ(tile.landings[2].bytes, tile.count * 4);
    next += tile.count;
    tiles.push_back(tile);
  }
  EXPECT_EQ(next, 10'001u);
  EXPECT_EQ(tiles.size(), 3u);
  std::reverse(tiles.begin(), tiles.end());  // they may end in any order
  for (const Tile& t : tiles) {
    EXPECT_TRUE(take().empty());
    aggregator_->tiles().end_tile(t, Status::kOk, kNoSession, 0);
  }
  EXPECT_EQ(take().size(), 3u);
}

// What a transport that lands inputs reserves for a group is at least what a group takes.
TEST_F(AggregatorTest, NoGroupIsLargerThanTheLargest) {
  for (const std::uint64_t window : {64ull << 10, 1ull << 20, 4ull << 20}) {
    for (const std::uint64_t tile_bytes : {0ull, 4096ull, 1ull << 20}) {
      AggregatorConfig config;
      config.window_bytes = window;
      config.tile_bytes = tile_bytes;
      reset(config);
      for (SessionId m = 0; m < kRanks; ++m) {
        Notice wanted = notice(1, 0, 1'000'000);
        wanted.type = ElementType::kI64;
        announce(m, wanted);
      }
      Tile tile;
      ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
      EXPECT_LE(tile.count * 8 * kRanks, largest_group(config, kRanks));
      EXPECT_LE(largest_group(config, kRanks), std::max<std::uint64_t>(window, 8 * kRanks << 20));
    }
  }
}

// Whether results go past the caches is decided by all that is to be moved, not by one operation.
TEST_F(AggregatorTest, ABacklogIsStreamed) {
  reset({.stream_bytes = 2 * 10'000 * 4 * 2 * kRanks});  // of two of the operations below
  Tile first, second;
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1));
  announce(0, notice(2));  // not ready: it moves nothing yet
  ASSERT_TRUE(aggregator_->tiles().start_tile(first));
  EXPECT_FALSE(first.stream);
  for (SessionId m = 1; m < kRanks; ++m) announce(m, notice(2));
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(3));
  ASSERT_TRUE(aggregator_->tiles().start_tile(first));
  EXPECT_TRUE(first.stream) << "there is another now";
  ASSERT_TRUE(aggregator_->tiles().start_tile(second));
  EXPECT_TRUE(second.stream) << "there was another when it became ready";
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(4));
  ASSERT_TRUE(aggregator_->tiles().start_tile(second));
  EXPECT_FALSE(second.stream) << "what has been moved is not counted";
}

// Between two tiles the shard looks for news, so a small operation never waits for a large tile.
TEST_F(AggregatorTest, TilesAreFineWhileAnotherJobHasSmallOperations) {
  aggregator_->add_job(1, JobSpec{.epoch = 7, .ranks = 1});
  aggregator_->join(1, 0, kRanks);
  Notice small = notice(1, 0, 100);
  announce(kRanks, small);
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1, 0, 4 << 20));
  Tile tile;
  std::uint64_t fine = 0;
  bool small_one_was_whole = false;
  while (aggregator_->tiles().start_tile(tile)) {
    if (tile.job == 1) {
      small_one_was_whole = tile.count == 100 && !tile.fine;
    } else if (tile.fine) {
      EXPECT_LE(tile.count, kCutElements);
      fine += tile.count * 4 * kRanks;
    } else {
      EXPECT_GT(tile.count, kCutElements) << "coarse again";
    }
    aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  }
  EXPECT_TRUE(small_one_was_whole);
  EXPECT_NEAR(static_cast<double>(fine), TileSizing::kFineFor, kCutElements * 4 * kRanks);
  EXPECT_FALSE(aggregator_->tiles().has_tiles());
}

// A job of one rank, whose root has a pace of 1 MB/s: a tile of 4096 elements takes 16 ms.
class PacedTilesTest : public AggregatorTest {
 protected:
  void SetUp() override {
    aggregator_ =
        std::make_unique<Aggregator>(AggregatorConfig{.plan = even_partition(1, 1 << 20)});
    Vertex root = star(0, 1);
    root.pace = 1'000'000;
    aggregator_->add_job(0, JobSpec{.epoch = 7, .ranks = 1, .vertices = {root}});
    aggregator_->join(0, 0, 0);
  }

  // Tiles that start at this time, and stay in flight. 0 bytes: none starts.
  std::uint64_t start(Nanos now) {
    std::uint64_t elements = 0;
    aggregator_->tiles().release(now);
    for (Tile tile; aggregator_->tiles().start_tile(tile); elements += tile.count) {
      aggregator_->tiles().pulling(tile, now);
      tiles_.push_back(tile);
    }
    return elements;
  }

  std::vector<Tile> tiles_;
};

TEST_F(PacedTilesTest, StartWhenTheirRootIsDue) {
  announce(0, notice(1, 0, 5 * kCutElements));
  Nanos now = kSecond;
  for (int tile = 1; tile <= 5; ++tile) {
    EXPECT_EQ(start(now), kCutElements) << tile;
    EXPECT_EQ(start(now), 0U);
    if (tile == 5) break;
    EXPECT_TRUE(aggregator_->tiles().has_held());
    EXPECT_FALSE(aggregator_->tiles().has_ready());
    const Nanos due = aggregator_->next_deadline();
    EXPECT_GT(due, now);
    EXPECT_LE(due, now + 17 * kMillisecond);
    EXPECT_EQ(start(due - 1), 0U);
    now = due;
  }
  EXPECT_FALSE(aggregator_->tiles().has_held());
}

TEST_F(PacedTilesTest, DoNotStartWhenTheirOperationHasFailed) {
  announce(0, notice(1, 0, 5 * kCutElements));
  announce(0, notice(2, 0, 5 * kCutElements));
  EXPECT_EQ(start(kSecond), kCutElements);
  Notice cancel = notice(1);
  cancel.kind = Kind::kCancel;
  announce(0, cancel);
  EXPECT_EQ(start(2 * kSecond), 2 * kCutElements) << "of the other operation";
  EXPECT_NE(tiles_.back().operation, tiles_.front().operation);
  aggregator_->gone(SessionId{0}, Status::kPeerLost, 3 * kSecond);
  EXPECT_FALSE(aggregator_->tiles().has_held());
  EXPECT_EQ(start(4 * kSecond), 0U);
  for (const Tile& tile : tiles_) {
    aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 4 * kSecond);
  }
  EXPECT_FALSE(aggregator_->tiles().has_tiles());
  aggregator_->remove_job(0);
}

// What fails before it is moved does not count for ever.
TEST_F(AggregatorTest, WhatFailsIsNoBacklog) {
  reset({.stream_bytes = 2 * 10'000 * 4 * 2 * kRanks});
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1));
  Notice cancel = notice(1);
  cancel.kind = Kind::kCancel;
  announce(0, cancel);
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(2));
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_FALSE(tile.stream);
}

TEST_F(AggregatorTest, ABarrierMovesNothing) {
  for (SessionId m = 0; m < kRanks; ++m) {
    Notice n = notice(1, 0, 0);
    n.kind = Kind::kBarrier;
    announce(m, n);
  }
  EXPECT_EQ(take().size(), 3u);
}

TEST_F(AggregatorTest, ATileNamesEveryMemberWhoseMemoryItTouchesOnce) {
  for (SessionId m = 0; m < kRanks; ++m) {
    Notice n = notice(1);
    n.kind = Kind::kReduce;
    announce(m, n);
  }
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_EQ(tile.landings.size(), 1u);
  EXPECT_EQ(tile.members, (std::vector<SessionId>{0, 1, 2})) << "contributors are fenced too";
}

TEST_F(AggregatorTest, GatheredBytesMoveUnchangedAndOnlyWhereTheyAreNotYet) {
  for (SessionId m = 0; m < kRanks; ++m) {
    Notice n = notice(1, 0, 9000);
    n.kind = Kind::kAllGather;
    n.in_region = n.out_region;
    n.in_offset = m * 3000 * 4;  // in place
    announce(m, n);
  }
  Tile tile;
  for (SessionId m = 0; m < kRanks; ++m) {
    ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
    EXPECT_EQ(tile.type, ElementType::kU8);
    EXPECT_EQ(tile.count, 12'000u);
    ASSERT_EQ(tile.sources.size(), 1u);
    EXPECT_EQ(tile.sources[0].member, m);
    EXPECT_EQ(tile.landings.size(), 2u);
    aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  }
  EXPECT_EQ(take().size(), 3u);
}

// 9000 elements for three ranks: shares begin within granules, and the second within a block.
TEST_F(AggregatorTest, ATileHasTheChecksumsOfThoseWhoGiveThem) {
  AggregatorConfig config;
  config.tile_bytes = 4096 * 4;
  reset(config);
  for (SessionId m = 0; m < kRanks; ++m) {
    Notice n = notice(1, 0, 9000);
    n.kind = Kind::kReduceScatter;
    if (m != 1) {
      n.flags = wire::kHasChecksums;
      n.side_region = 5;
      EXPECT_EQ(aggregator_->extents(m, n).side.bytes, (9 + 2) * 4u);
    }
    announce(m, n);
  }
  struct Expected {
    std::uint64_t first, count, lead, offset, checksums;
  };
  const Expected tiles[] = {
      {0, 3000, 4096, 0, 3},        {3000, 1096, 288, 3 * 4, 2},  // to the end of the block
      {4096, 1904, 4096, 5 * 4, 2}, {6000, 2192, 576, 7 * 4, 3}, {8192, 808, 3232, 10 * 4, 1},
  };
  Tile tile;
  for (const Expected& expected : tiles) {
    ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
    EXPECT_EQ(tile.first, expected.first);
    EXPECT_EQ(tile.count, expected.count);
    EXPECT_EQ(tile.lead, expected.lead);
    ASSERT_EQ(tile.checksums.size(), 2u);
    EXPECT_EQ(tile.checksums[0].source, 0u);
    EXPECT_EQ(tile.checksums[1].source, 2u);
    EXPECT_EQ(tile.checksums[1].where.member, 2u);
    EXPECT_EQ(tile.checksums[1].where.region, 5u);
    EXPECT_EQ(tile.checksums[1].where.offset, expected.offset);
    EXPECT_EQ(tile.checksums[1].where.bytes, expected.checksums * 4);
    aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  }
  EXPECT_EQ(take().size(), 3u);
}

TEST_F(AggregatorTest, StatisticsGoToThoseWhoWantThem) {
  for (SessionId m = 0; m < kRanks; ++m) {
    Notice n = notice(1, 0, 5000);
    if (m == 1) {
      n.flags = wire::kWantStats;
      n.side_region = 5;
      EXPECT_EQ(aggregator_->extents(m, n).side.bytes, 32u);
    }
    announce(m, n);
  }
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  ASSERT_EQ(tile.stats_landings.size(), 1u);
  EXPECT_EQ(tile.stats_landings[0].member, 1u);
  EXPECT_EQ(tile.stats_landings[0].bytes, 32u);
}

// Each of its trees has a part of the operation, with notices, tiles and a completion of its own.
TEST_F(AggregatorTest, AShardServesSeveralTreesOfAJob) {
  JobSpec spec{.epoch = 7, .ranks = 2, .credit = kCredit};
  spec.plan = even_partition(3, 1 << 20);
  spec.vertices = {star(0, 2), star(2, 2)};
  aggregator_->add_job(1, spec);
  for (std::uint16_t rank = 0; rank < 2; ++rank) aggregator_->join(1, rank, 10 + rank);
  Notice n = notice(5, 0, 1 << 20);
  std::uint64_t elements = 0;
  for (std::uint16_t part = 0; part < 3; ++part) {
    const Part whole = cut(spec.plan, {0, n.tag, n.type, n.count}, part);
    n.part = part;
    for (SessionId m : {10u, 11u}) announce(m, n);
    if (whole.tree == 1) {
      const auto out = take();
      ASSERT_EQ(out.size(), 2u);
      EXPECT_EQ(out[0].completion.status, Status::kInvalidArgument) << "not a tree of this shard";
      continue;
    }
    elements += whole.count;
  }
  EXPECT_EQ(aggregator_->inspect().operations(1), 2u);
  Tile tile;
  while (aggregator_->tiles().start_tile(tile)) {
    elements -= tile.count;
    aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  }
  EXPECT_EQ(elements, 0u);
  EXPECT_EQ(take().size(), 4u) << "a completion of each part for each rank";
}

}  // namespace
}  // namespace tally::protocol
