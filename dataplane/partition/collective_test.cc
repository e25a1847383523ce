#include "dataplane/partition/collective.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

using wire::Kind;

Shape shape_of(Kind kind, std::uint64_t count, std::uint16_t ranks, std::uint16_t root = 0) {
  return Shape{kind, ElementType::kF32, Operation::kSum, root, ranks, count};
}

TEST(Collective, AllReduceIsAllToAll) {
  const Stretch stretch = stretch_at(shape_of(Kind::kAllReduce, 100, 4), 7);
  EXPECT_TRUE(stretch.contributors.all && stretch.receivers.all);
  EXPECT_EQ(stretch.end, 100u);
}

TEST(Collective, RootedOnesNameTheRoot) {
  const Stretch reduce = stretch_at(shape_of(Kind::kReduce, 100, 4, 2), 0);
  EXPECT_TRUE(reduce.contributors.all);
  EXPECT_FALSE(reduce.receivers.has(1));
  EXPECT_TRUE(reduce.receivers.has(2));
  const Stretch broadcast = stretch_at(shape_of(Kind::kBroadcast, 100, 4, 2), 0);
  EXPECT_EQ(broadcast.contributors.rank, 2);
  EXPECT_TRUE(broadcast.receivers.all);
  EXPECT_EQ(contribution(shape_of(Kind::kBroadcast, 100, 4, 2), 0).count, 0u);
  EXPECT_EQ(result(shape_of(Kind::kReduce, 100, 4, 2), 0).count, 0u);
}

TEST(Collective, TrafficCountsEveryBufferThatAnElementIsIn) {
  EXPECT_EQ(traffic(shape_of(Kind::kAllReduce, 100, 4), 10), 10u * 4 * 8);
  EXPECT_EQ(traffic(shape_of(Kind::kReduce, 100, 4, 2), 10), 10u * 4 * 5);
  EXPECT_EQ(traffic(shape_of(Kind::kBroadcast, 100, 4, 2), 10), 10u * 4 * 5);
  EXPECT_EQ(traffic(shape_of(Kind::kReduceScatter, 100, 4), 10), 10u * 4 * 5);
  EXPECT_EQ(traffic(shape_of(Kind::kAllGather, 100, 4), 10), 10u * 4 * 5);
}

// Every element of a scattered or gathered operation lies in the share of exactly one owner, for
// counts that do not divide, that are smaller than the ranks, and that are huge.
TEST(Collective, SharesTileTheOperation) {
  for (std::uint64_t count : {1ull, 3ull, 7ull, 100ull, 4097ull}) {
    for (std::uint16_t ranks : {1, 2, 3, 5, 8, 1024}) {
      const Shape scatter = shape_of(Kind::kReduceScatter, count, ranks);
      std::uint64_t next = 0;
      for (std::uint16_t rank = 0; rank < ranks; ++rank) {
        const Extent share = result(scatter, rank);
        ASSERT_EQ(share.first, next);
        next += share.count;
        for (std::uint64_t e = share.first; e < next; e += 1 + share.count / 3) {
          const Stretch stretch = stretch_at(scatter, e);
          ASSERT_EQ(stretch.receivers.rank, rank) << count << " over " << ranks << " at " << e;
          ASSERT_EQ(stretch.end, next);
        }
      }
      ASSERT_EQ(next, count);
    }
  }
  const Shape huge = shape_of(Kind::kAllGather, wire::kMaxBytes / 4, 1000);
  EXPECT_EQ(stretch_at(huge, huge.count - 1).contributors.rank, 999);
}

TEST(Collective, NeedsTheRanksThatAloneContributeOrReceive) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kBarrier}) {
    EXPECT_FALSE(needs(shape_of(kind, 100, 4), 0));
  }
  for (const Kind kind : {Kind::kReduce, Kind::kBroadcast}) {
    Shape shape = shape_of(kind, 100, 4);
    shape.root = 2;
    EXPECT_TRUE(needs(shape, 2));
    EXPECT_FALSE(needs(shape, 1));
  }
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather}) {
    EXPECT_TRUE(needs(shape_of(kind, 100, 4), 3));
    EXPECT_FALSE(needs(shape_of(kind, 1, 4), 0)) << "it owns no element";
    EXPECT_TRUE(needs(shape_of(kind, 1, 4), 3));
  }
}

}  // namespace
}  // namespace tally::protocol
