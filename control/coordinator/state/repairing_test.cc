// Jobs whose nodes are lost while they run, as the coordinator sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/repairing_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(RepairingTest, ALostNodesTreesGoToTheOthers) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  const auto at_a = news(a);
  EXPECT_THAT(at_a.withdraw, IsEmpty()) << "the lost version ends when all ranks know the next one";
  ASSERT_THAT(at_a.placements, SizeIs(1));
  EXPECT_EQ(at_a.placements[0].follows, first_);
  EXPECT_THAT(at_a.placements[0].trees, ElementsAre(0, 1));
  EXPECT_EQ(progress().stage, "repairing");
  EXPECT_EQ(progress().epoch, first_);
  EXPECT_EQ(progress().waits_for, "waits for \"a\" to take its trees");
  EXPECT_EQ(progress().trouble, "node \"b\" has left: its cable was cut");
  coordinator_->report(a, {at_a.placements[0].id, false, ""});
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  EXPECT_TRUE(last_.is_repair);
  EXPECT_EQ(last_.version->nodes.size(), 1U);
  EXPECT_EQ(last_.epoch, at_a.placements[0].epoch);
  coordinator_->report(1, next_, {Report::kReady, {{{7, 3}}, {}, {}}});
  EXPECT_EQ(progress().waits_for, "waits for rank 1 to open sessions of its next version");
  coordinator_->report(2, next_,
                       {Report::kReady, {{{7, 4}, {8, 2}}, {{8, {Status::kDeadline, 1, 0}}}, {7}}});
  ASSERT_THAT(instructions(), ElementsAre(Word::kDecided));
  EXPECT_EQ(last_.decision.first, (Rounds{{7, 3}, {8, 2}}));
  EXPECT_EQ(last_.decision.failed, (RoundFailures{{8, {Status::kDeadline, 1, 0}}}));
  EXPECT_EQ(epoch(), first_);
  both_report(Report::kKnows);
  ASSERT_THAT(instructions(), ElementsAre(Word::kGo));
  EXPECT_EQ(epoch(), next_);
  EXPECT_EQ(progress().stage, "running");
  EXPECT_THAT(news(a).withdraw, SizeIs(1)) << "the lost version";
  EXPECT_THAT(instructions(), IsEmpty()) << "nothing is left to do";
  EXPECT_EQ(coordinator_->next_deadline(), now_ + kHold);
}

TEST_F(RepairingTest, ARankThatHasLostANodeStartsARepairOverTheSameNodes) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  lose(2, first_, "node \"b\" is lost");
  lose(1, first_, "node \"b\" is lost");
  EXPECT_EQ(progress().trouble, "rank 1: node \"b\" is lost");
  repair_with({a, b});
  EXPECT_GT(next_, first_);
  EXPECT_EQ(last_.rank, 1U);
  // The version that repaired it may be lost too.
  lose(1, next_);
  repair_with({a, b});
}

TEST_F(RepairingTest, AReportThatCrossesTheEndOfARepairHasNoEffect) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  lose(1, first_);
  repair_with({a, b});
  lose(2, first_);
  lose(2, next_ + 7);
  EXPECT_THAT(instructions(), IsEmpty());
  EXPECT_EQ(stage(), "running");
}

TEST_F(RepairingTest, JobsWithARankThatCannotBeRepairedEndAsBefore) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  coordinator_->listen(1, true);
  lose(1, first_, "node \"b\" is lost");
  act();
  ASSERT_THAT(notifications_, SizeIs(1)) << "to the rank that waits";
  EXPECT_EQ(notifications_[0].ticket, 1U);
  EXPECT_EQ(ended(), "node \"b\" is lost; not repaired: rank 1 not there, or of an older release");
  EXPECT_EQ(stage(), "running");
  coordinator_->leave(b, "its cable was cut");
  EXPECT_EQ(epoch(), 0U);
  EXPECT_THAT(news(a).withdraw, SizeIs(1));
  lose(1, first_);
  EXPECT_THAT(ended(), HasSubstr("the job is over"));
}

TEST_F(RepairingTest, JobsThatWaitForARankEndAsBefore) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  serve(a), serve(b);
  act();
  coordinator_->listen(1, true);
  coordinator_->leave(b, "its cable was cut");
  EXPECT_EQ(epoch(), 0U);
}

TEST_F(RepairingTest, ANodesReportThatAJobIsOverNeitherEndsNorRepairsIt) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  act();
  for (Coordinator::Ticket ticket : {1, 2}) coordinator_->listen(ticket, true);
  first_ = epoch();
  coordinator_->report(a, {at_a, true, ""});
  EXPECT_THAT(instructions(), IsEmpty());
  EXPECT_EQ(stage(), "running");
  lose(1, first_);
  EXPECT_EQ(stage(), "repairing");
  repair_with({a, b});
  EXPECT_THAT(news(a).withdraw, IsEmpty()) << "it is over there";
  EXPECT_THAT(news(b).withdraw, SizeIs(1));
}

TEST_F(RepairingTest, AJobThatIsOverAtANodeEndsWhenARankLeaves) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  const auto placement_of = [&](std::size_t node) {
    return coordinator_->jobs().record(first_)->nodes[node].placement;
  };
  const std::uint64_t at_a = placement_of(0), at_b = placement_of(1);
  coordinator_->report(a, {at_a, true, ""});
  coordinator_->close(1);
  EXPECT_EQ(epoch(), 0U);
  EXPECT_THAT(news(b).withdraw, ElementsAre(at_b));
  coordinator_->report(b, {at_b, true, ""});
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(RepairingTest, NodesLostOneAfterTheOtherCostOneAttemptEach) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  run_repairable_job({a, b, c});
  coordinator_->leave(c, "its cable was cut");
  act();
  serve(a);
  coordinator_->leave(b, "so was this one's");  // before it has taken its trees
  EXPECT_THAT(instructions(), IsEmpty()) << "no rank has heard of the attempt";
  repair_with({a});
}

TEST_F(RepairingTest, ANodeLostInTheMiddleOfARepairStartsAnotherAttemptAtOnce) {
  for (const Report last : {Report::kReady, Report::kKnows}) {
    const NodeId a = join("a"), b = join("b"), c = join("c");
    run_repairable_job({a, b, c});
    coordinator_->leave(c, "its cable was cut");
    act();
    serve(a), serve(b);
    ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
    const std::uint32_t attempt = next_;
    if (last == Report::kKnows) {
      both_report(Report::kReady);
      ASSERT_THAT(instructions(), ElementsAre(Word::kDecided));
    }
    coordinator_->report(1, next_, {last});
    coordinator_->leave(b, "so was this one's");
    EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
    coordinator_->report(2, attempt, {last});  // what crossed it
    repair_with({a});
    EXPECT_GT(next_, attempt);
    EXPECT_THAT(news(a).withdraw, SizeIs(1)) << "the lost version; the first attempt was before";
    coordinator_.emplace(options_, store_ = MemoryStore());
    answers_.clear();
    sent_.clear();
  }
}

TEST_F(RepairingTest, AnAttemptThatFailsIsRepeatedAfterAPause) {
  const NodeId a = join("a"), b = join("b");
  const auto begin = [&] {
    run_repairable_job({a, b});
    lose(1, first_);
    act();
  };
  begin();
  EXPECT_THAT(news(b).placements, SizeIs(1));
  coordinator_->report(a, {news(a).placements.at(0).id, false, "no room"});
  act();
  EXPECT_EQ(coordinator_->next_deadline(), now_ + kRepairPause);
  EXPECT_EQ(progress().waits_for, "node \"a\": no room");
  now_ += kRepairPause;
  all_listen({a, b});
  serve(a), serve(b);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  coordinator_->report(2, next_, {Report::kCannot, {}, "no memory"});
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(last_.why, "rank 1: no memory");
  EXPECT_EQ(coordinator_->next_deadline(), now_ + 2 * kRepairPause);
  repair_after_pause({a, b});
}

TEST_F(RepairingTest, AnAttemptFailsWhenItsNodesDoNotTakeTheirTreesInTime) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  lose(1, first_);
  act();
  serve(a);
  wait(kPlacingTimeout, {a, b});
  EXPECT_THAT(progress().waits_for, HasSubstr("within 10 s: \"b\""));
  repair_after_pause({a, b});
}

TEST_F(RepairingTest, ARankThatLosesAnAttemptsNodesCallsItOff) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_repair({a, b});
  lose(2, first_);
  EXPECT_THAT(instructions(), IsEmpty()) << "the same loss";
  lose(2, first_);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff)) << "again";
  now_ += kRepairPause;
  all_listen({a, b});
  serve(a), serve(b);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  both_report(Report::kReady);
  ASSERT_THAT(instructions(), ElementsAre(Word::kDecided));
  lose(1, next_);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff)) << "by its own epoch";
  repair_after_pause({a, b});
}

TEST_F(RepairingTest, ALossThatARankReportsAfterItIsReadyIsOfTheAttempt) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  begin_repair({a, b});
  coordinator_->report(2, next_, {Report::kReady});
  lose(2, first_);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
}

TEST_F(RepairingTest, ARankThatGoesDuringARepairEndsTheJob) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  act();
  serve(a);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  coordinator_->lose(2);
  act();
  ASSERT_THAT(notifications_, SizeIs(2)) << "to the rank that is left";
  EXPECT_EQ(notifications_[0].word, Word::kCalledOff);
  EXPECT_EQ(ended(1), "rank 1 died or lost its connection to the coordinator");
  EXPECT_EQ(epoch(), 0U);
  EXPECT_THAT(news(a).withdraw, SizeIs(2));
  lose(1, first_);  // it crossed the end
  EXPECT_EQ(ended(1), "rank 1 died or lost its connection to the coordinator");
}

TEST_F(RepairingTest, ALossThatIsReportedAfterARankHasLeftIsBlamedOnThatRank) {
  const NodeId a = join("a");
  run_repairable_job({a});
  coordinator_->close(2);
  EXPECT_THAT(instructions(), IsEmpty()) << "as before";
  lose(1, first_, "peer lost");
  EXPECT_EQ(ended(1), "rank 1 has left");
  coordinator_->leave(a, "its cable was cut");
  EXPECT_EQ(epoch(), 0U);
}

TEST_F(RepairingTest, ARepairWithoutMembersWaitsForOne) {
  const NodeId a = join("a");
  run_repairable_job({a});
  coordinator_->leave(a, "its cable was cut");
  act();
  EXPECT_EQ(stage(), "repairing");
  EXPECT_THAT(progress().waits_for, HasSubstr("start another"));
  EXPECT_EQ(coordinator_->next_deadline(), now_ + kRepairTimeout);
  now_ += 20 * kSecond;
  const auto b = coordinator_->join(member("b"), 0, now_);
  ASSERT_TRUE(b.ok());
  coordinator_->listen(*b, now_ + kHold);
  repair_with({*b});
}

TEST_F(RepairingTest, AJobThatIsNotRepairedInTimeEnds) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  act();
  serve(a);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  coordinator_->report(1, next_, {Report::kReady});
  wait(kRepairTimeout - 1, {a});
  EXPECT_THAT(instructions(), IsEmpty());
  EXPECT_EQ(stage(), "repairing");
  wait(1, {a});
  EXPECT_EQ(ended(1),
            "node \"b\" has left: its cable was cut; not repaired within 60 s: the job waits for "
            "rank 1 to open sessions of its next version");
  EXPECT_EQ(epoch(), 0U);
}

TEST_F(RepairingTest, AJobWithoutMembersEndsInTime) {
  const NodeId a = join("a");
  run_repairable_job({a});
  coordinator_->leave(a, "its cable was cut");
  wait(kRepairTimeout, {});
  EXPECT_THAT(ended(), HasSubstr("start another"));
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(RepairingTest, AnAwaitedNodeIsNoLossUntilItsTimeIsOver) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->await(b, now_);
  EXPECT_THAT(news(a).placements, IsEmpty());
  EXPECT_EQ(stage(), "running");
  now_ += kReturn;
  act();
  EXPECT_EQ(stage(), "repairing");
  repair_with({a});
}

TEST_F(RepairingTest, ANodeThatReturnsWithoutItsTreesIsALoss) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->await(b, now_);
  const auto back = coordinator_->join(member("b"), 0, now_, {b, {}});
  ASSERT_TRUE(back.ok());
  coordinator_->listen(*back, now_ + kHold);
  EXPECT_EQ(stage(), "repairing");
  repair_with({a, *back});
}

TEST_F(RepairingTest, AnAwaitedNodeThatHasNotTakenItsTreesDelaysNoRepair) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  lose(1, first_);  // before the coordinator sees the end of the node's connection
  act();
  serve(a);
  coordinator_->await(b, now_);
  repair_with({a});
}

// After a takeover a node that stands still joins nobody.
TEST_F(RepairingTest, AnAwaitedNodeThatDoesNotJoinIsSilentBeforeItHasLeft) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->await(b, now_);
  coordinator_->expect(b, now_);
  wait(kRejoin + kSecondLook, {a});
  EXPECT_THAT(silent_, ElementsAre("b"));
  repair_with({a});
}

TEST_F(RepairingTest, ARankMayReportTheLossOfAnAwaitedNode) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->await(b, now_);
  lose(1, first_);
  repair_with({a});
}

TEST_F(RepairingTest, APlanFromAFileKeepsItsPartition) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", stars(4), now_).ok());
  run_repairable_job({a, b});
  const auto before = coordinator_->jobs().record(first_)->plan;
  coordinator_->leave(b, "its cable was cut");
  act();
  repair_with({a, c});
  const JobRecord& job = *coordinator_->jobs().current("train");
  EXPECT_EQ(job.plan, before);
  EXPECT_EQ(job.plan_epoch, 4U);
}

TEST_F(RepairingTest, TheLogShowsTheBeginAndTheEndOfARepair) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  auto events = coordinator_->act(now_).repairs;
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_FALSE(events[0].has_ended);
  EXPECT_EQ(events[0].job, "train");
  EXPECT_EQ(events[0].epoch, first_);
  const Nanos began = now_;
  now_ += kSecond;
  coordinator_->close(1);
  events = coordinator_->act(now_).repairs;
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_TRUE(events[0].has_ended);
  EXPECT_EQ(events[0].repaired_by, 0U);
  EXPECT_EQ(events[0].since, began);
}

}  // namespace
}  // namespace tally::control
