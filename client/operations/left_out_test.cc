#include "client/operations/left_out.h"

#include <gtest/gtest.h>

#include "client/operations/operation_book.h"

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

TEST(LeftOut, ARankThatReturnsKnowsNoRoundsBeforeItsFirst) {
  OperationBook book({.partition = protocol::even_partition(1, 1 << 20), .rank = 0, .ranks = 2});
  std::vector<Outbound> out;
  book.return_at(7, 6);
  EXPECT_TRUE(book.knows_rounds(8));
  EXPECT_FALSE(book.knows_rounds(7));
  wire::Notice notice;
  notice.tag = 7;
  notice.count = 1;
  ASSERT_EQ(book.post(notice, 0, kForever, out), Status::kOk);
  EXPECT_EQ(out.back().notice.round, 6U);
  ASSERT_EQ(book.interrupt().size(), 1U);
  EXPECT_FALSE(book.knows_rounds(7)) << "round 6 has not ended";
  out.clear();
  ASSERT_EQ(book.post(notice, 0, kForever, out), Status::kOk);
  wire::Completion done;
  done.tag = 7;
  done.round = 6;
  done.cookie = out.back().notice.cookie;
  ASSERT_EQ(book.complete(0, done, out), Status::kOk);
  EXPECT_TRUE(book.knows_rounds(7));
}

}  // namespace
}  // namespace tally::client
