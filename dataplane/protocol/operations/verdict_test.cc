#include "dataplane/protocol/operations/verdict.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

TEST(Verdict, KeepsItsFieldsInACompletion) {
  const Verdict verdict{.status = Status::kMismatch,
                        .field = wire::Field::kCount,
                        .culprit = 4,
                        .witness = 2,
                        .missing = 3,
                        .has_last = true,
                        .last_tag = 17,
                        .last_round = 5,
                        .culprit_value = 9,
                        .witness_value = 10};
  const wire::Completion completion = completion_of(verdict, 3 * kMillisecond);
  EXPECT_EQ(completion.elapsed_us, 3000u);
  const Verdict back = verdict_of(completion);
  EXPECT_EQ(back.status, verdict.status);
  EXPECT_EQ(back.field, verdict.field);
  EXPECT_EQ(back.culprit, verdict.culprit);
  EXPECT_EQ(back.witness, verdict.witness);
  EXPECT_EQ(back.missing, verdict.missing);
  EXPECT_TRUE(back.has_last);
  EXPECT_EQ(back.last_tag, verdict.last_tag);
  EXPECT_EQ(back.last_round, verdict.last_round);
  EXPECT_EQ(back.culprit_value, verdict.culprit_value);
  EXPECT_EQ(back.witness_value, verdict.witness_value);
}

TEST(Verdict, OnlyAFailureReportsThatResultsMayHaveLanded) {
  OperationRecord operation;
  operation.started = true;
  EXPECT_EQ(completion_of(operation, 7, 0).flags & wire::kStarted, 0);
  operation.verdict.status = Status::kPeerLost;
  EXPECT_NE(completion_of(operation, 7, 0).flags & wire::kStarted, 0);
}

TEST(Verdict, NodesMayNameOnlyRanksThatExist) {
  EXPECT_TRUE(sensible(Verdict{.status = Status::kDeadline}, 4));
  EXPECT_TRUE(sensible(Verdict{.status = Status::kDeadline, .culprit = 3}, 4));
  EXPECT_FALSE(sensible(Verdict{.status = Status::kDeadline, .culprit = 4}, 4));
  EXPECT_FALSE(sensible(Verdict{.status = Status::kDuplicate}, 4)) << "a status of a notice";
}

TEST(Verdict, ADeadlineNamesTheFirstRankThatItWaitedFor) {
  OperationRecord operation;
  operation.verdict.status = Status::kDeadline;
  name_culprit(operation, 2);
  name_culprit(operation, 3);
  EXPECT_EQ(operation.verdict.culprit, 2);
  operation.verdict = Verdict{.status = Status::kPeerLost};
  name_culprit(operation, 2);
  EXPECT_EQ(operation.verdict.culprit, wire::kNoRank);
}

}  // namespace
}  // namespace tally::protocol
