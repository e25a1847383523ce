#include "client/operations/left_out.h"

#include <gtest/gtest.h>

namespace tally::client {
namespace {

protocol::Shape shape(wire::Kind kind, std::uint64_t count, std::uint16_t root = 0) {
  return {.kind = kind, .root = root, .ranks = 4, .count = count};
}

TEST(LeftOut, NoRanksAreNoSet) {
  EXPECT_EQ(make_left_out({}), nullptr);
}

TEST(LeftOut, NamesTwoRanksAndCountsTheOthers) {
  EXPECT_EQ(make_left_out({3})->text, "without rank 3");
  EXPECT_EQ(make_left_out({1, 4})->text, "without ranks 1 and 4");
  EXPECT_EQ(make_left_out({1, 4, 6})->text, "without ranks 1, 4 and 1 more");
  std::vector<std::uint16_t> many;
  for (std::uint16_t rank = 1; rank < 15; ++rank) many.push_back(rank);
  EXPECT_EQ(make_left_out(many)->text, "without ranks 1, 2 and 12 more");
}

TEST(LeftOut, ARootIsNeeded) {
  const auto left_out = make_left_out({1, 3});
  for (const wire::Kind kind : {wire::Kind::kReduce, wire::Kind::kBroadcast}) {
    EXPECT_EQ(needed_rank(*left_out, shape(kind, 100, 3)), 3);
    EXPECT_EQ(needed_rank(*left_out, shape(kind, 100, 1)), 1);
    EXPECT_FALSE(needed_rank(*left_out, shape(kind, 100, 2)));
  }
}

TEST(LeftOut, AnOwnerOfElementsIsNeeded) {
  const auto left_out = make_left_out({1, 2});
  for (const wire::Kind kind : {wire::Kind::kReduceScatter, wire::Kind::kAllGather}) {
    EXPECT_EQ(needed_rank(*left_out, shape(kind, 100)), 1) << "the first one";
    EXPECT_EQ(needed_rank(*left_out, shape(kind, 2)), 1) << "element 0";
    EXPECT_FALSE(needed_rank(*left_out, shape(kind, 1))) << "rank 3 owns the element";
    EXPECT_FALSE(needed_rank(*left_out, shape(kind, 0)));
  }
  EXPECT_EQ(needed_rank(*make_left_out({0, 3}), shape(wire::Kind::kAllGather, 1)), 3)
      << "rank 0 owns no element";
}

TEST(LeftOut, OtherOperationsNeedNoRank) {
  const auto left_out = make_left_out({0});
  EXPECT_FALSE(needed_rank(*left_out, shape(wire::Kind::kAllReduce, 100)));
  EXPECT_FALSE(needed_rank(*left_out, shape(wire::Kind::kBarrier, 0)));
}

}  // namespace
}  // namespace tally::client
