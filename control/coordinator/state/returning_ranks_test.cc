// Ranks whose connections to an elected coordinator end, as that sees it: they may be looking for
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/repairing_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;

using ReturningRanksTest = RepairingTest;

TEST_F(ReturningRanksTest, ARankThatLosesItsConnectionMayComeBackToTheRepair) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_repair({a, b});
  coordinator_->lose(2, now_ + kReconnect);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(progress().waits_for, "waits for rank 1 to come to this coordinator");
  coordinator_->resume(3, opening(1), {first_});
  coordinator_->listen(3, true);
  act();
  for (const NodeId node : {a, b}) serve(node);
  now_ += kRepairPause;
  act();
  for (const NodeId node : {a, b}) serve(node);
  EXPECT_THAT(instructions(), ElementsAre(Word::kPrepare));
}

TEST_F(ReturningRanksTest, AReportThatIsRepeatedCallsNoAttemptOff) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_repair({a, b});
  coordinator_->lose(1, now_ + kReconnect);
  coordinator_->resume(3, opening(0), {first_});
  coordinator_->listen(3, true);
  act();
  now_ += kRepairPause;
  act();
  const std::uint32_t attempt = coordinator_->jobs().find(first_)->next;
  ASSERT_NE(attempt, 0U);
  lose(3, first_);
  EXPECT_EQ(coordinator_->jobs().find(first_)->next, attempt);
}

TEST_F(ReturningRanksTest, ARankThatDoesNotComeBackInTimeEndsTheJob) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_repair({a, b});
  coordinator_->lose(2, now_ + kReconnect);
  instructions();
  now_ += kReconnect;
  EXPECT_EQ(ended(1), "rank 1 died or lost its connection to the coordinator");
}

TEST_F(ReturningRanksTest, ARankThatDoesNotComeBackIsNamedWhenALossIsReportedLater) {
  const NodeId a = join("a");
  run_repairable_job({a});
  coordinator_->lose(2, now_ + kReconnect);
  EXPECT_EQ(stage(), "running");
  coordinator_->report(a, {store_.jobs().at(first_)->nodes[0].placement, true, ""});
  act();
  now_ += kReconnect;
  act();
  EXPECT_EQ(epoch(), 0U) << "the nodes had dropped it";
  lose(1, first_, "peer lost");
  EXPECT_EQ(ended(1), "rank 1 died or lost its connection to the coordinator");
}

TEST_F(ReturningRanksTest, TheFirstOfSeveralRanksThatDoNotComeBackIsNamed) {
  const NodeId a = join("a");
  for (Coordinator::Ticket ticket : {1, 2, 3}) {
    const auto rank = static_cast<std::uint32_t>(ticket - 1);
    coordinator_->open(ticket, opening(rank, "train", "t", 3), now_);
  }
  serve(a);
  act();
  for (Coordinator::Ticket ticket : {1, 2, 3}) coordinator_->listen(ticket, true);
  first_ = epoch();
  coordinator_->lose(3, now_ + kReconnect);
  coordinator_->lose(2, now_ + kReconnect);
  lose(1, first_, "peer lost");
  EXPECT_EQ(stage(), "repairing");
  now_ += kReconnect;
  EXPECT_EQ(ended(2), "rank 2 died or lost its connection to the coordinator");
}

TEST_F(ReturningRanksTest, AJobWhoseRanksAreGoneFormsAgainWithFewer) {
  const NodeId a = join("a");
  run_repairable_job({a});
  coordinator_->lose(1, now_ + kReconnect);
  coordinator_->lose(2, now_ + kReconnect);
  coordinator_->open(3, opening(0, "train", "t", 1), now_);
  EXPECT_EQ(answers_at(3), Status::kStaleEpoch) << "the rank asks again";
  coordinator_->report(a, {store_.jobs().at(first_)->nodes[0].placement, true, ""});
  now_ += kReconnect;
  act();
  coordinator_->open(4, opening(0, "train", "t", 1), now_);
  serve(a);
  EXPECT_EQ(answer(4).ranks, 1U);
}

}  // namespace
}  // namespace tally::control
