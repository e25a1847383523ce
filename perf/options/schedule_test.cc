#include "perf/options/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace tally::perf {
namespace {

Workload load(std::string_view name) {
  return control::find_workload(std::string(name)).value();
}

TEST(Plan, TensorsComeLastFirst) {
  const auto buckets = tensor_buckets(load("resnet50"));
  ASSERT_EQ(buckets.size(), 161u);
  EXPECT_EQ(buckets.front().segments.front().stream, 160u);
  EXPECT_EQ(buckets.front().count, 1000u);  // fc.bias
  EXPECT_EQ(buckets.back().segments.front().stream, 0u);
  EXPECT_EQ(buckets.back().count, 64u * 3 * 7 * 7);
}

TEST(Plan, BucketsHoldEveryTensorOnceAndCloseAtTheLimit) {
  const std::uint64_t limit = 25 * 1024 * 1024;
  const Workload resnet = load("resnet50");
  const auto buckets = packed_buckets(resnet, ElementType::kF32, limit);
  EXPECT_EQ(buckets.size(), 4u);
  std::set<std::uint32_t> streams;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& bucket = buckets[i];
    EXPECT_EQ(bucket.tag, i);
    std::uint64_t sum = 0;
    for (const Segment& segment : bucket.segments) {
      EXPECT_TRUE(streams.insert(segment.stream).second);
      EXPECT_EQ(segment.count, resnet.tensors[segment.stream].count);
      sum += segment.count;
    }
    EXPECT_EQ(bucket.count, sum);
    if (i + 1 < buckets.size()) {
      EXPECT_GE(sum * 4, limit);
      EXPECT_LT((sum - bucket.segments.back().count) * 4, limit);
    }
  }
  EXPECT_EQ(streams.size(), 161u);
}

TEST(Plan, SharesCoverEverythingOnce) {
  for (const std::uint64_t count : {0ull, 1ull, 7ull, 1000ull, 4097ull}) {
    for (const std::uint32_t ranks : {1u, 3u, 8u}) {
      std::uint64_t next = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const Extent share = owned_extent(count, rank, ranks);
        EXPECT_EQ(share.first, next);
        next += share.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Plan, PiecesOfAnExtent) {
  const Bucket bucket{0, 30, {Segment{5, 0, 10}, Segment{4, 0, 15}, Segment{3, 0, 5}}};
  std::vector<std::array<std::uint64_t, 4>> pieces;
  const auto note = [&](const Segment& piece, std::uint64_t at) {
    pieces.push_back({piece.stream, piece.first, piece.count, at});
  };
  for_each_piece(bucket, Extent{8, 18}, note);
  EXPECT_EQ(pieces, (std::vector<std::array<std::uint64_t, 4>>{
                        {5, 8, 2, 0}, {4, 0, 15, 2}, {3, 0, 1, 17}}));
  pieces.clear();
  for_each_piece(bucket, Extent{10, 0}, note);
  for_each_piece(bucket, Extent{30, 5}, note);
  EXPECT_TRUE(pieces.empty());
}

TEST(Plan, ContributionsAndResultsDependOnTheRank) {
  EXPECT_EQ(contribution(TALLY_BROADCAST, 10, 1, 2, 0).count, 0u);
  EXPECT_EQ(contribution(TALLY_BROADCAST, 10, 0, 2, 0).count, 10u);
  EXPECT_EQ(contribution(TALLY_ALL_GATHER, 10, 1, 2, 0).first, 5u);
  EXPECT_EQ(result(TALLY_REDUCE, 10, 1, 2, 0).count, 0u);
  EXPECT_EQ(result(TALLY_REDUCE_SCATTER, 10, 1, 2, 0).count, 5u);
  EXPECT_EQ(result(TALLY_ALL_REDUCE, 10, 1, 2, 0).count, 10u);
}

TEST(Plan, ShuffleStaysWithinItsWindow) {
  const auto order = shuffled_order(100, 32, 7);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 100u);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i] / 32, i / 32);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order, shuffled_order(100, 32, 7));
  EXPECT_NE(order, shuffled_order(100, 32, 8));
}

TEST(Plan, GuardedLayoutLeavesAGapBehindEveryBucket) {
  Row row;
  row.type = ElementType::kF64;
  row.buckets = equal_buckets(128, 3);  // 1024 bytes each
  const Layout layout(row, 8, true);
  ASSERT_EQ(layout.offsets.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(layout.offsets[i] % Layout::kAlignment, 8u);
    const std::uint64_t next = i + 1 < 3 ? layout.offsets[i + 1] : layout.bytes;
    EXPECT_GT(next, layout.offsets[i] + 1024);
  }
  EXPECT_EQ(row.count(), 384u);
  EXPECT_EQ(row.bytes(), 3072u);
}

TEST(Plan, ARowWithoutDataHasARegionNevertheless) {
  const Row barrier;
  for (const bool guarded : {false, true}) EXPECT_GE(Layout(barrier, 0, guarded).bytes, 1u);
}

TEST(Plan, OneBucketWithoutAGapCoversTheBuffer) {
  Row row;
  row.buckets = equal_buckets(256, 1);
  EXPECT_EQ(Layout(row, 0, false).bytes, row.bytes());
}

}  // namespace
}  // namespace tally::perf
