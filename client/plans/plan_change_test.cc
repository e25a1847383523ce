#include "client/plans/plan_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/client/plan_change_fixture.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Kind = PlanStep::Kind;

constexpr Nanos kLongSilence = 66 * kSecond;

TEST_F(PlanChangeTest, ChangesInTheOrderOfTheCoordinator) {
  const OperationBook old(config());
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone) << "no change";
  prepare();
  know();
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kGo);
  change_.plans().go({{7, 2}});
  EXPECT_TRUE(change_.needs_old(old)) << "round 2 of tag 7 is to be posted";
  change_.plans().posted(7, 2);
  EXPECT_FALSE(change_.needs_old(old));
  change_.moved();
  change_.moved();
  answer_next("leave");
  ASSERT_EQ(wait_for_step().kind, Kind::kLeave);
  change_.left();
  EXPECT_EQ(count_reports("moved", "left"), 1);
  EXPECT_EQ(count_reports("knows", "left"), 1);
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kSteady);
}

TEST_F(PlanChangeTest, ATermBelowThatOfTheJobsEntryEndsTheConnection) {
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"term", kTerm - 1}});
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.has_coordinator());
}

TEST_F(PlanChangeTest, IgnoresAnotherEpoch) {
  prepare();
  answer_next({{"change", "called off"}, {"epoch", 3}});
  answer_next("called off");
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_EQ(change_.next(0).kind, Kind::kNone);
  EXPECT_FALSE(change_.plans().holds());
}

TEST_F(PlanChangeTest, ARankThatCalledOffCannotFollowTheOthers) {
  prepare();
  know();
  change_.call_off("no room for it");
  EXPECT_TRUE(change_.plans().holds()) << "the others may have decided";
  answer_next("go");
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
  EXPECT_THAT(step.why.message, HasSubstr("no room for it"));
  EXPECT_EQ(count_reports("cannot", "cannot"), 1);
}

TEST_F(PlanChangeTest, WithoutADecisionTheOldPlanGoesOnAlone) {
  prepare();
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone);
  const PlanStep step = change_.next(kLongSilence);
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("it has been silent for too long; the job runs on"));
  EXPECT_FALSE(change_.has_coordinator());
  EXPECT_EQ(change_.silent_until(), kForever);
  change_.refuse(4, "there is no coordinator");
}

class ShortTimeoutsOfRankTest : public PlanChangeTest {
 protected:
  ShortTimeoutsOfRankTest() : PlanChangeTest({}, {.fault = 10 * kSecond}) {}
};

TEST_F(ShortTimeoutsOfRankTest, ASilentCoordinatorIsLostSoonAfterTheTimeThatItHasSent) {
  EXPECT_EQ(change_.timeouts().preparing(), 10 * kSecond / 3);
  change_.interrupt(kEpoch, "node lost", 0);
  EXPECT_EQ(change_.next(15 * kSecond - 1).kind, Kind::kNone);
  EXPECT_EQ(change_.next(15 * kSecond).kind, Kind::kEndSession);
}

TEST_F(PlanChangeTest, ALostCoordinatorAfterTheDecisionEndsTheSession) {
  prepare();
  know();
  end();
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kUnavailable);
}

TEST_F(PlanChangeTest, AnInterruptedRankWaitsForItsRepair) {
  change_.interrupt(3, "node b is gone", 0);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  answer_next(
      {{"change", "prepare"}, {"epoch", 9}, {"nodes", json::array()}});  // was planned before
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kPrepare);
  EXPECT_EQ(step.update.epoch, 4U);
  change_.prepared(4, {{7, {2, {}, false}}}, 0);
  answer_next({{"change", "decided"},
               {"epoch", 4},
               {"first", json::parse("[[7, 3]]")},
               {"failed", json::parse("[[7, 4, 1, 2]]")}});
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kRepaired);
  const RoundDecision decided = change_.repaired();
  EXPECT_EQ(decided.first.at(7), 3U);
  EXPECT_EQ(decided.failed.at(7), (RoundFailure{Status::kDeadline, 1, 2}));
  EXPECT_FALSE(change_.is_interrupted());
  EXPECT_FALSE(change_.plans().holds());
  EXPECT_EQ(count_reports("lost", "knows"), 1);
}

TEST_F(PlanChangeTest, AnAttemptThatIsCalledOffLeavesTheRankInterrupted) {
  change_.interrupt(3, "node b is gone", 0);
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  ASSERT_EQ(wait_for_step().kind, Kind::kPrepare);
  change_.prepared(4, {}, 0);
  answer_next("called off");
  ASSERT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  EXPECT_NE(change_.silent_until(), kForever);
  answer_next({{"change", "ended"}, {"epoch", 3}, {"why", "rank 2 has left"}, {"culprit", 2}});
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kPeerLost);
  EXPECT_EQ(step.why.message, "rank 2 has left");
  EXPECT_EQ(step.culprit, 2);
}

TEST_F(PlanChangeTest, WithoutItsCoordinatorAnInterruptedRankGivesUp) {
  change_.interrupt(3, "node b is gone", 0);
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone);
  const PlanStep step = change_.next(kLongSilence);
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
}

TEST(PlanChange, WithoutACoordinatorNothingComes) {
  PlanChange change{KnownCoordinator()};
  EXPECT_FALSE(change.repairs());
  EXPECT_EQ(change.fd(), -1);
  EXPECT_EQ(change.next(kForever - 1).kind, Kind::kNone);
  change.leave();
}

}  // namespace
}  // namespace tally::client
