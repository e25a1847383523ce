#include "client/operations/verdict_text.h"

#include <gtest/gtest.h>

namespace tally::client {
namespace {

wire::Completion verdict(Status status) {
  wire::Completion verdict;
  verdict.status = status;
  verdict.tag = 17;
  verdict.round = 5;
  verdict.culprit = 3;
  return verdict;
}

TEST(VerdictText, OfADeadlineNamesTheMissingRankAndItsLastNotice) {
  wire::Completion late = verdict(Status::kDeadline);
  late.missing = 1;
  late.elapsed_us = 3'200'000;
  late.flags = wire::kHasLast;
  late.last_tag = 17;
  late.last_round = 4;
  EXPECT_EQ(verdict_text(late, 0),
            "tag 17 round 5: waiting for rank 3 (last announced: tag 17 round 4), 3.2 s");
  late.flags = 0;
  late.missing = 3;
  EXPECT_EQ(verdict_text(late, 0),
            "tag 17 round 5: waiting for rank 3 (has announced nothing yet) and 2 more, 3.2 s");
  late.missing = 0;
  EXPECT_EQ(verdict_text(late, 0),
            "tag 17 round 5: not finished in 3.2 s: rank 3 did not give or take its bytes");
  late.culprit = wire::kNoRank;
  EXPECT_EQ(verdict_text(late, 0), "tag 17 round 5: not finished in 3.2 s");
}

TEST(VerdictText, OfAMismatchNamesBothRanksAndTheirValues) {
  wire::Completion mismatch = verdict(Status::kMismatch);
  mismatch.field = wire::Field::kType;
  mismatch.culprit_value = 3;
  mismatch.witness = 0;
  mismatch.witness_value = 0;
  EXPECT_EQ(verdict_text(mismatch, 0),
            "tag 17 round 5: rank 3 announced type bf16, rank 0 announced f32");
  mismatch.field = wire::Field::kCount;
  mismatch.culprit_value = 100;
  EXPECT_EQ(verdict_text(mismatch, 3),
            "tag 17 round 5: rank 3 announced count 100, rank 0 announced 0 (this rank)");
}

TEST(VerdictText, NamesTheRankWhoseBytesAreDamaged) {
  EXPECT_EQ(
      verdict_text(verdict(Status::kDamaged), 0),
      "tag 17 round 5: rank 3's bytes do not have its checksums, however often they are read: "
      "damaged on the way or in memory, or changed after the post");
}

TEST(VerdictText, NamesTheRankThatIsGone) {
  EXPECT_EQ(verdict_text(verdict(Status::kPeerLost), 0),
            "tag 17 round 5: rank 3 died or its connection broke");
  EXPECT_EQ(verdict_text(verdict(Status::kCancelled), 3),
            "tag 17 round 5: cancelled by rank 3 (this rank)");
}

TEST(VerdictText, NamesTheNodeThatIsGone) {
  const std::vector<std::string> nodes = {"a", "b"};
  wire::Completion lost = verdict(Status::kPeerLost);
  lost.culprit = wire::kNoRank;
  lost.culprit_value = 2;
  EXPECT_EQ(verdict_text(lost, 0, nodes),
            "tag 17 round 5: node \"b\" of the job died or its connection to the next one broke");
  for (const std::uint64_t number : {0, 3}) {
    lost.culprit_value = number;
    EXPECT_EQ(verdict_text(lost, 0, nodes),
              "tag 17 round 5: a node of the job died or its connection to the next one broke");
  }
}

TEST(VerdictText, NamesALeftOutRankThatTheOperationNeeds) {
  Finished finished;
  finished.verdict.status = Status::kPeerLost;
  finished.verdict.culprit = 3;
  finished.tag = 17;
  finished.round = 5;
  finished.left_out = make_left_out({1, 3});
  EXPECT_EQ(verdict_text(finished, 0, {}),
            "tag 17 round 5: rank 3 is left out of the job, and the operation needs it: use a root "
            "that is left, or an all-reduce");
  finished.verdict.culprit = 2;
  EXPECT_EQ(verdict_text(finished, 0, {}), "tag 17 round 5: rank 2 died or its connection broke");
}

}  // namespace
}  // namespace tally::client
