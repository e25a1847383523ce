// The ends of operations, losses and deadlines, each unit alone.
#include "dataplane/protocol/verdicts/verdicts.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using State = OperationRecord::State;
using wire::Completion;
using wire::VertexKind;
using wire::VertexMessage;

using VerdictsTest = UnitsTest;
using LossesTest = UnitsTest;
using DeadlinesTest = UnitsTest;

constexpr Verdict kCancelled{.status = Status::kCancelled, .culprit = 1};

TEST_F(VerdictsTest, AnOperationEndsWithItsLastTileAndItsLastResult) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  OperationRecord& operation = job.table[index];
  operation.cursor = operation.end;
  operation.tiles_in_flight = 1;
  verdicts_.conclude_if_over(job, index, 0);
  operation.tiles_in_flight = 0;
  operation.placing = 1;
  verdicts_.conclude_if_over(job, index, 0);
  EXPECT_TRUE(outbox_.completions().empty());
  operation.placing = 0;
  verdicts_.conclude_if_over(job, index, 5 * kMicrosecond);
  ASSERT_EQ(outbox_.completions().size(), 2u);
  EXPECT_EQ(outbox_.completions()[0].completion.cookie, 100u);
  EXPECT_EQ(outbox_.completions()[1].completion.cookie, 101u);
  EXPECT_EQ(outbox_.completions()[0].completion.elapsed_us, 5u);
  EXPECT_EQ(only<Completion>(false).cookie, 0u) << "the tree, for the child node";
  EXPECT_EQ(job.table.size(), 0u);
  EXPECT_EQ(deadlines_.next(), kForever);
  EXPECT_EQ(job.members[0].outstanding, 0u);
}

TEST_F(VerdictsTest, AFailureWaitsForTilesInFlight) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  scheduler_.add(0, 1, index, 0, 0);
  backlog_.add(traffic(job.table[index].shape, kCount));
  job.table[index].tiles_in_flight = 1;
  verdicts_.fail(job, index, kCancelled, 0);
  EXPECT_EQ(job.table[index].state, State::kDraining);
  EXPECT_FALSE(scheduler_.has_ready());
  EXPECT_TRUE(backlog_.empty());
  EXPECT_TRUE(outbox_.completions().empty());
  job.table[index].tiles_in_flight = 0;
  verdicts_.conclude_if_over(job, index, 0);
  ASSERT_EQ(outbox_.completions().size(), 2u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kCancelled);
}

TEST_F(VerdictsTest, BelowAParentAFailureIsReportedAndTheParentDecides) {
  Job& job = make(false);
  const PoolIndex index = add_ready(job);
  verdicts_.fail(job, index, kCancelled, 0);
  EXPECT_EQ(job.table[index].state, State::kReported);
  Completion report = only<Completion>(true);
  EXPECT_EQ(report.status, Status::kCancelled);
  EXPECT_TRUE(outbox_.completions().empty());
  report.status = Status::kDeadline;
  ASSERT_EQ(verdicts_.judged(job, 0, report, 0), Status::kOk);
  ASSERT_EQ(outbox_.completions().size(), 2u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kDeadline);
  report.epoch = 6;
  EXPECT_EQ(verdicts_.judged(job, 0, report, 0), Status::kProtocol);
}

TEST_F(VerdictsTest, AFailureIsKeptForChildrenThatComeLate) {
  Job& job = make(true, false);
  verdicts_.fail(job, add(job, 1, {0}), kCancelled, 0);
  EXPECT_EQ(outbox_.completions().size(), 1u);
  EXPECT_EQ(job.failed.size(), 1u);
  jobs_.join(0, child_node(job), kChildNode);
  verdicts_.joined(job, child_node(job));
  EXPECT_EQ(only<Completion>(false).status, Status::kCancelled);
  EXPECT_EQ(job.failed.size(), 1u) << "rank 1 is still to come";
}

Completion report_of_rank_2() {
  Completion report;
  report.status = Status::kDeadline;
  report.culprit = 2;
  report.epoch = 7;
  report.tag = 5;
  return report;
}

TEST_F(VerdictsTest, TheRootKeepsAReportOfAnUnknownOperation) {
  Job& job = make(true);
  Completion report = report_of_rank_2();
  ASSERT_EQ(verdicts_.reported(job, child_node(job), report, 0), Status::kOk);
  EXPECT_EQ(job.failed.size(), 1u);
  EXPECT_EQ(only<Completion>(false).culprit, 2);
  report.culprit = 40;
  EXPECT_EQ(verdicts_.reported(job, child_node(job), report, 0), Status::kProtocol);
}

TEST_F(VerdictsTest, BelowAParentAReportOfAnUnknownOperationIsPassedOn) {
  Job& job = make(false);
  ASSERT_EQ(verdicts_.reported(job, child_node(job), report_of_rank_2(), 0), Status::kOk);
  EXPECT_EQ(only<Completion>(true).culprit, 2);
  EXPECT_EQ(job.table.size(), 0u);
}

TEST_F(LossesTest, TheFirstLossBreaksTheJob) {
  Job& job = make(true);
  add(job, 1, {0, 1});
  losses_.gone(job, 0, Status::kPeerLost, 0);
  EXPECT_EQ(jobs_.child(0).job, nullptr);
  ASSERT_EQ(outbox_.completions().size(), 1u) << "the lost rank gets none";
  EXPECT_EQ(outbox_.completions()[0].member, 1u);
  EXPECT_EQ(outbox_.completions()[0].completion.culprit, 0);
  EXPECT_EQ(outbox_.messages_down().size(), 2u) << "the loss, and the end of the operation";
  losses_.gone(job, 1, Status::kPeerLeft, 0);
  EXPECT_EQ(job.broken.status, Status::kPeerLost);
  EXPECT_EQ(job.broken.culprit, 0);
  EXPECT_TRUE(outbox_.completions().empty()) << "rank 1 is gone too";
}

TEST_F(LossesTest, TheNewsDoesNotGoBackWhereItCameFrom) {
  Job& job = make(false);
  VertexMessage news = message(VertexKind::kBroken);
  news.status = Status::kDeadline;
  EXPECT_EQ(losses_.broken(job, news, kChildNode, kNoParentId, 0), Status::kProtocol)
      << "that is no loss";
  news.status = Status::kPeerLost;
  news.culprit = 2;
  ASSERT_EQ(losses_.broken(job, news, kChildNode, kNoParentId, 0), Status::kOk);
  EXPECT_TRUE(outbox_.messages_down().empty());
  EXPECT_EQ(only<VertexMessage>(true).kind, VertexKind::kBroken);
  ASSERT_EQ(losses_.broken(job, news, kNoSession, kParent, 0), Status::kOk);
  EXPECT_TRUE(outbox_.messages_down().empty()) << "sent once";
}

TEST_F(LossesTest, WithoutItsParentAVertexDecidesItself) {
  Job& job = make(false);
  const PoolIndex index = add_ready(job);
  verdicts_.fail(job, index, kCancelled, 0);
  outbox_.clear_tree_messages();
  losses_.parent_gone(kParent, Status::kPeerLost, 0);
  ASSERT_EQ(outbox_.completions().size(), 2u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kCancelled)
      << "what the vertex has reported";
  EXPECT_EQ(job.broken.status, Status::kPeerLost);
  losses_.parent_gone(kParent, Status::kPeerLost, 0);  // does nothing
  EXPECT_EQ(outbox_.completions().size(), 2u);
}

TEST_F(DeadlinesTest, NamesTheFirstMissingRank) {
  Job& job = make(true);
  add(job, 1, {0});
  job.members[1].has_last = true;
  job.members[1].last_tag = 8;
  EXPECT_EQ(deadlines_.next(), kSecond);
  deadlines_.expire(kSecond - 1);
  EXPECT_TRUE(outbox_.completions().empty());
  deadlines_.expire(kSecond);
  ASSERT_EQ(outbox_.completions().size(), 1u);
  const Completion& completion = outbox_.completions()[0].completion;
  EXPECT_EQ(completion.culprit, 1);
  EXPECT_EQ(completion.missing, 2) << "the child node too";
  EXPECT_EQ(completion.last_tag, 8u);
}

TEST_F(DeadlinesTest, AsksChildNodesBeforeTheOperationFails) {
  Job& job = make(true);
  add(job, 1, {0, 1});
  deadlines_.expire(kSecond);
  EXPECT_EQ(only<VertexMessage>(false).kind, VertexKind::kMissing);
  EXPECT_TRUE(outbox_.completions().empty());
  EXPECT_EQ(deadlines_.next(), 2 * kSecond);
  deadlines_.expire(2 * kSecond);
  ASSERT_EQ(outbox_.completions().size(), 2u);
  EXPECT_EQ(outbox_.completions()[0].completion.status, Status::kDeadline);
}

TEST_F(DeadlinesTest, AParentLearnsTheMissingRankOfAnUnknownOperation) {
  Job& job = make(false);
  deadlines_.asked(job, message(VertexKind::kMissing), 0);
  const Completion report = only<Completion>(true);
  EXPECT_EQ(report.status, Status::kDeadline);
  EXPECT_EQ(report.culprit, 0);
  EXPECT_EQ(report.missing, 3);
}

TEST_F(DeadlinesTest, AFailureWhoseTilesDoNotEndIsStuckOnce) {
  Job& job = make(true);
  const PoolIndex index = add_ready(job);
  job.table[index].tiles_in_flight = 1;
  verdicts_.fail(job, index, kCancelled, 0);
  deadlines_.expire(4 * kSecond);
  ASSERT_EQ(outbox_.stuck().size(), 1u);
  EXPECT_EQ(outbox_.stuck()[0].operation, index);
  EXPECT_EQ(deadlines_.next(), kForever);
}

}  // namespace
}  // namespace tally::protocol
