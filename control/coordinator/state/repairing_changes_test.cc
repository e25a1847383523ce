// Jobs whose nodes are lost while their plan changes, and whose plan changes after a repair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "control/coordinator/layout/closed_form.h"
#include "tests/support/control/repairing_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RepairingChangesTest : public RepairingTest {};

TEST_F(RepairingChangesTest, ANodeLostDuringAChangeOfPlanIsRepaired) {
  for (const char* lost : {"a", "b"}) {
    const NodeId a = join("a"), b = join("b"), c = join("c");
    run_repairable_job({a, b, c});
    begin_drain("c", {a, b});
    EXPECT_FALSE(last_.is_repair);
    coordinator_->report(1, next_, {Report::kReady});
    coordinator_->leave(lost == std::string("a") ? a : b, "its cable was cut");
    EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
    EXPECT_EQ(epoch(), first_);
    repair_with({lost == std::string("a") ? b : a});
    EXPECT_EQ(coordinator_->jobs().record(next_)->nodes.size(), 1U) << "not at the drained one";
    coordinator_.emplace(options_, store_ = MemoryStore());
    answers_.clear();
    sent_.clear();
  }
}

TEST_F(RepairingChangesTest, ANodeOnlyOfTheNextVersionThatIsLostIsNoLoss) {
  const NodeId a = join("a");
  run_repairable_job({a});
  const NodeId b = join("b");
  now_ += kCalm;
  act();
  serve(a), serve(b);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  coordinator_->leave(b, "its cable was cut");
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(stage(), "running");
}

TEST_F(RepairingChangesTest, ANodeOfTheOldVersionIsALossWhileRanksStillUseIt) {
  for (const bool used : {true, false}) {
    const NodeId a = join("a"), b = join("b");
    run_repairable_job({a, b});
    begin_drain("b", {a});
    move_ranks();
    const std::uint32_t newest = next_;
    if (!used) {
      both_report(Report::kMoved);
      instructions();
    }
    coordinator_->leave(b, "its cable was cut");
    if (used) {
      EXPECT_EQ(stage(), "repairing");
      EXPECT_EQ(progress().epoch, newest);
      const auto at_a = news(a);
      EXPECT_THAT(at_a.withdraw, SizeIs(1)) << "the version that is leaving";
      ASSERT_THAT(at_a.placements, SizeIs(1));
      coordinator_->report(a, {at_a.placements[0].id, false, ""});
      repair_with({a});
      EXPECT_EQ(coordinator_->jobs().record(next_)->follows, newest);
    } else {
      EXPECT_THAT(instructions(), IsEmpty());
      both_report(Report::kLeft);
      EXPECT_EQ(stage(), "running");
      EXPECT_EQ(epoch(), newest);
    }
    coordinator_.emplace(options_, store_ = MemoryStore());
    answers_.clear();
    sent_.clear();
  }
}

TEST_F(RepairingChangesTest, ARankMayLoseTheOldVersionWhileTheJobMoves) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_drain("b", {a});
  move_ranks();
  lose(2, first_);  // it has yet to read kGo
  EXPECT_EQ(stage(), "repairing");
  repair_with({a});
}

TEST_F(RepairingChangesTest, APlanThatARepairCallsOffIsWantedAfterwards) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_repairable_job({a, b, c});
  MachinePlan alone;
  alone.file = closed_form_plan({{a, member("a")}});
  alone.file.epoch = 4;
  ASSERT_TRUE(coordinator_->set_plan("", alone, now_).ok());
  coordinator_->replan("");
  act();
  serve(a);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  coordinator_->leave(c, "its cable was cut");
  ASSERT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  all_listen({a, b});
  serve(a), serve(b);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  EXPECT_EQ(last_.version->plan_epoch, 0U) << "by the plan that it had";
  both_report(Report::kReady);
  both_report(Report::kKnows);
  instructions();
  EXPECT_EQ(stage(), "changing");
  all_listen({a});
  serve(a);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  EXPECT_EQ(last_.version->plan_epoch, 4U);
}

TEST_F(RepairingChangesTest, AMemberThatJoinsAfterARepairGetsTreesAsUsual) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  repair_with({a});
  const auto back = coordinator_->join(member("b"), 0, now_);
  ASSERT_TRUE(back.ok());
  coordinator_->listen(*back, now_ + kHold);
  now_ += kCalm;
  all_listen({a});
  EXPECT_THAT(news(a).placements, SizeIs(1));
}

}  // namespace
}  // namespace tally::control
