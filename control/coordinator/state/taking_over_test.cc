// A coordinator over the store of another that has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/placed_jobs.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TakingOverTest : public CoordinatorTest {
 protected:
  void take_over() {
    coordinator_.emplace(options_, store_, now_);
    answers_.clear();
    sent_.clear();
  }
  NodeId returns(const char* name, NodeId was, std::vector<std::uint64_t> placements) {
    const auto node = coordinator_->join(member(name), 0, now_, {was, std::move(placements)});
    EXPECT_TRUE(node.ok()) << node.error().message;
    coordinator_->listen(*node, now_ + kHold);
    return *node;
  }
  const Member& member_of(NodeId node) const { return store_.members().at(node); }
  // A job of one rank that changes its plan: its placements at nodes a and b, and the one of its
  // next version, which a has alone.
  struct ChangingJob {
    NodeId a = 0, b = 0;
    std::uint64_t old_a = 0, old_b = 0, new_a = 0;
    std::uint32_t next = 0;  // epoch of the next version
  };
  // The coordinator is lost when the rank knows the decision. repairs: the rank can be repaired.
  ChangingJob take_over_a_change(bool repairs = true) {
    ChangingJob job{join("a"), join("b")};
    coordinator_->open(1, opening(0, "train", "t", 1), now_);
    job.old_a = serve(job.a), job.old_b = serve(job.b);
    act();
    coordinator_->listen(1, repairs);
    EXPECT_TRUE(coordinator_->drain("b", false, now_).ok());
    act();
    job.new_a = serve(job.a);
    act();
    job.next = notifications_.at(0).epoch;
    coordinator_->report(1, job.next, {Change::Report::kReady});
    coordinator_->report(1, job.next, {Change::Report::kKnows});
    act();
    take_over();
    return job;
  }
  void resume_and_report_moved(std::uint32_t epoch) {
    coordinator_->resume(3, opening(0, "train", "t", 1), {1, epoch});
    EXPECT_EQ(answer(3).epoch, epoch);
    coordinator_->listen(3, true);
    notifications_.clear();
    coordinator_->report(3, epoch, {Change::Report::kMoved});
    act();
  }
};

TEST_F(TakingOverTest, NumberingContinues) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t placed = serve(a);
  EXPECT_EQ(answer(1).epoch, 1U);
  take_over();
  const NodeId again = join("a");
  EXPECT_GT(again, a);
  EXPECT_THAT(coordinator_->members().has(a).error().message, HasSubstr("no member"));
  coordinator_->open(3, opening(0), now_);
  EXPECT_THAT(error(3), HasSubstr("its last run is ending"));
  coordinator_->open(2, opening(0), now_);
  const auto placements = news(again).placements;
  ASSERT_EQ(placements.size(), 1U);
  EXPECT_GT(placements[0].id, placed);
  EXPECT_EQ(placements[0].epoch, 2U);
  coordinator_->report(again, {placed, true, ""});  // of the one before
  EXPECT_TRUE(waits(2));
  coordinator_->report(again, {placements[0].id, false, ""});
  EXPECT_EQ(answer(2).epoch, 2U);
}

TEST_F(TakingOverTest, JobsThatNoRankUsesAreForgotten) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  EXPECT_EQ(news(a).placements.size(), 1U);
  take_over();
  EXPECT_THAT(store_.members(), IsEmpty());
  EXPECT_THAT(store_.jobs(), IsEmpty());
  EXPECT_THAT(store_.departed(), IsEmpty()) << "no plan names it";
  EXPECT_EQ(coordinator_->jobs().current("train"), nullptr);
  EXPECT_EQ(coordinator_->next_deadline(), kForever);
  coordinator_->report(a, {1, false, ""});
  coordinator_->close(1);
  coordinator_->open(2, opening(1), now_);
  EXPECT_THAT(answer(2).nodes, IsEmpty());
}

TEST_F(TakingOverTest, ANodeThatReturnsKeepsItsNumberAndItsRunningJobs) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a), at_b = serve(b);
  EXPECT_EQ(answer(1).epoch, 1U);
  take_over();
  ASSERT_NE(coordinator_->jobs().current("train"), nullptr);
  EXPECT_EQ(returns("a", a, {at_a}), a);
  EXPECT_EQ(returns("b", b, {at_b}), b);
  EXPECT_THAT(news(a).withdraw, IsEmpty());
  coordinator_->open(2, opening(1), now_);
  EXPECT_EQ(answer(2).epoch, 1U) << "a rank whose answer was lost enters the same job";
  EXPECT_EQ(answer(2).lock.key->identity, store_.jobs().at(1)->lock.key->identity);
  coordinator_->report(a, {at_a, true, ""});
  EXPECT_NE(coordinator_->jobs().current("train"), nullptr) << "its ranks may want a repair";
  now_ += kResume;
  act();
  EXPECT_EQ(coordinator_->jobs().current("train"), nullptr) << "a rank has left it";
  EXPECT_THAT(news(b).withdraw, ElementsAre(at_b));
  coordinator_->report(b, {at_b, true, ""});
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(TakingOverTest, RanksResumeTheirJobWhichIsRepaired) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  take_over();
  returns("a", a, {at_a});
  coordinator_->resume(3, opening(0), {1, 0});
  EXPECT_EQ(answer(3).epoch, 1U);
  coordinator_->listen(3, true);
  coordinator_->report(3, 1, {Change::Report::kLost, {}, "node \"b\" died"});
  EXPECT_THAT(news(a).placements, IsEmpty()) << "rank 1 has not come yet";
  coordinator_->resume(4, opening(1), {1, 0});
  EXPECT_EQ(answer(4).epoch, 1U);
  coordinator_->listen(4, true);
  const auto placements = news(a).placements;
  ASSERT_EQ(placements.size(), 1U);
  EXPECT_EQ(placements[0].follows, 1U);
  EXPECT_THAT(placements[0].trees, ElementsAre(0, 1));
}

TEST_F(TakingOverTest, AJobWhoseRanksDoNotComeBackIsNotRepaired) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  take_over();
  returns("a", a, {at_a});
  coordinator_->resume(3, opening(0), {1, 0});
  coordinator_->listen(3, true);
  coordinator_->report(3, 1, {Change::Report::kLost, {}, "node \"b\" died"});
  act();
  now_ += kResume;
  coordinator_->listen(a, now_ + kHold);
  act();
  ASSERT_FALSE(notifications_.empty());
  const auto& last = notifications_.back();
  EXPECT_EQ(last.word, Change::Word::kEnded);
  EXPECT_EQ(last.culprit, 1U);
  EXPECT_THAT(last.why, HasSubstr("not repaired: rank 1 did not come to the new coordinator"));
}

TEST_F(TakingOverTest, ARankMayResumeAgain) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  take_over();
  returns("a", a, {at_a});
  coordinator_->resume(3, opening(0), {1, 0});
  coordinator_->listen(3, true);
  coordinator_->report(3, 1, {Change::Report::kLost, {}, "node \"b\" died"});
  coordinator_->lose(3);
  EXPECT_EQ(coordinator_->progress().at(0).stage, "repairing");
  for (const std::uint32_t rank : {0U, 1U}) {
    coordinator_->resume(4 + rank, opening(rank), {1, 0});
    coordinator_->listen(4 + rank, true);
  }
  EXPECT_EQ(news(a).placements.size(), 1U);
}

TEST_F(TakingOverTest, RanksThatHaveMovedReportItAgain) {
  const auto [a, b, old_a, old_b, new_a, next] = take_over_a_change();
  returns("a", a, {old_a, new_a});
  returns("b", b, {old_b});
  resume_and_report_moved(next);
  ASSERT_EQ(notifications_.size(), 1U);
  EXPECT_EQ(notifications_[0].word, Change::Word::kLeave);
  coordinator_->lose(3);
  coordinator_->resume(4, opening(0, "train", "t", 1), {next, 0});
  coordinator_->listen(4, true);
  act();
  ASSERT_EQ(notifications_.size(), 2U) << "the first one may be lost";
  EXPECT_EQ(notifications_[1].word, Change::Word::kLeave);
  coordinator_->report(4, next, {Change::Report::kLeft});
  EXPECT_THAT(news(b).withdraw, ElementsAre(old_b));
}

// The first rank that left the old version ended it at the nodes, before the coordinator was lost.
TEST_F(TakingOverTest, AVersionThatNodesHaveEndedIsNoLoss) {
  const auto [a, b, old_a, old_b, new_a, next] = take_over_a_change();
  returns("a", a, {new_a});
  returns("b", b, {});
  act();
  EXPECT_NE(coordinator_->progress().back().stage, "repairing");
  resume_and_report_moved(next);
  ASSERT_EQ(notifications_.size(), 1U) << "it may still have the old version";
  EXPECT_EQ(notifications_[0].word, Change::Word::kLeave);
  EXPECT_EQ(notifications_[0].epoch, next);
}

TEST_F(TakingOverTest, ARankThatLostItsConnectionHasNotLeft) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  serve(a), serve(b);
  coordinator_->resume(3, opening(1), {1, 0});
  EXPECT_THAT(error(3), HasSubstr("rank 1 has an earlier connection"));
  coordinator_->lose(2);
  coordinator_->resume(4, opening(1), {1, 0});
  EXPECT_EQ(answer(4).epoch, 1U);
  for (const Coordinator::Ticket ticket : {1, 4}) coordinator_->listen(ticket, true);
  coordinator_->leave(b, "its cable was cut");
  EXPECT_EQ(news(a).placements.size(), 1U) << "the job is repaired";
}

TEST_F(TakingOverTest, ANodeThatReturnsLetsGoOfUnknownPlacements) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t placed = news(a).placements.at(0).id;  // it has yet to acknowledge it
  take_over();
  const NodeId again = returns("a", a, {placed});
  EXPECT_THAT(news(again).withdraw, ElementsAre(placed));
}

TEST_F(TakingOverTest, AWithdrawalThatGotLostIsSentAgain) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a), at_b = serve(b);
  coordinator_->report(a, {at_a, true, ""});
  EXPECT_THAT(news(b).withdraw, ElementsAre(at_b));  // lost with the connection
  coordinator_->await(b, now_);
  returns("b", b, {at_b});
  EXPECT_THAT(news(b).withdraw, ElementsAre(at_b));
}

TEST_F(TakingOverTest, ANodeReturnsAlthoughAnEarlierJobHasItsEarlierNumber) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  serve(a), serve(b);
  coordinator_->leave(a, "it has ended");  // b has yet to drop the job
  const NodeId later = join("a");
  auto other = opening(0);
  other.job = "other";
  coordinator_->open(2, other, now_);
  const std::uint64_t at_a = serve(later), at_b = serve(b);
  take_over();
  EXPECT_EQ(returns("a", later, {at_a}), later);
  returns("b", b, {at_b});
  EXPECT_NE(coordinator_->jobs().current("other"), nullptr);
  EXPECT_EQ(coordinator_->jobs().current("train"), nullptr) << "its node has been started again";
}

TEST_F(TakingOverTest, AJobThatANodeHasLostEndsUnlessItsRanksComeBack) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  serve(a), serve(b);
  take_over();
  returns("a", a, {});
  EXPECT_EQ(coordinator_->progress().at(0).stage, "repairing") << "its placement is gone";
  EXPECT_GT(join("b"), b) << "it has been started again";
  now_ += kResume;
  act();
  EXPECT_EQ(coordinator_->jobs().current("train"), nullptr);
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(TakingOverTest, ANodeThatDoesNotReturnInTimeHasLeft) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  take_over();
  returns("a", a, {at_a});
  EXPECT_LE(coordinator_->next_deadline(), now_ + kReturn);
  now_ += kReturn - 1;
  EXPECT_THAT(news(a).withdraw, IsEmpty());
  now_ += 1;
  EXPECT_THAT(news(a).withdraw, IsEmpty());
  EXPECT_EQ(coordinator_->progress().at(0).stage, "repairing") << "when its ranks come";
  now_ += kResume - kReturn;
  EXPECT_THAT(news(a).withdraw, ElementsAre(at_a));
  EXPECT_EQ(coordinator_->jobs().current("train"), nullptr);
}

TEST_F(TakingOverTest, AJobWaitsForNodesThatHaveYetToJoin) {
  join("a"), join("b");
  ASSERT_TRUE(coordinator_->drain("a", false, now_).ok());
  take_over();
  join("a");
  coordinator_->open(1, opening(0), now_);
  EXPECT_THAT(error(1), HasSubstr("nodes may yet join"));
  EXPECT_EQ(answers_.at(1).status(), Status::kUnavailable) << "the rank asks again";
  now_ += kReturn;
  coordinator_->open(2, opening(0), now_);
  EXPECT_THAT(error(2), HasSubstr("all nodes are draining"));
  EXPECT_EQ(answers_.at(2).status(), Status::kRefused);
}

TEST_F(TakingOverTest, AVersionThatIsLeavingEndsWithoutANodeThatDoesNotReturn) {
  const NodeId a = 1, b = 2;
  JobRecord before = job_record(1, {a, b}), running = job_record(2, {a});
  running.follows = before.epoch;
  before.runs = running.runs = true;
  store_.put(std::make_shared<const JobRecord>(before));
  store_.put(std::make_shared<const JobRecord>(running));
  take_over();
  returns("a", a, {11, 21});
  coordinator_->report(a, {11, true, ""});
  EXPECT_TRUE(store_.jobs().contains(1)) << "b may return, with ranks that use it";
  now_ += kReturn;
  act();
  EXPECT_FALSE(store_.jobs().contains(1));
  EXPECT_TRUE(store_.jobs().contains(2));
}

TEST_F(TakingOverTest, AJobThatIsOverDoesNotRunAgain) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a), at_b = serve(b);
  coordinator_->report(a, {at_a, true, ""});
  ASSERT_TRUE(store_.jobs().contains(1)) << "b has it";
  take_over();
  EXPECT_THAT(store_.jobs(), IsEmpty());
  EXPECT_THAT(news(returns("b", b, {at_b})).withdraw, ElementsAre(at_b));
}

TEST_F(TakingOverTest, ANodeThatLosesItsConnectionReturnsToItsJobs) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  EXPECT_EQ(news(b).placements.size(), 1U);  // lost with the connection
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  coordinator_->await(a, now_);
  coordinator_->await(b, now_);
  EXPECT_EQ(returns("a", a, {at_a}), a);
  EXPECT_EQ(returns("b", b, {}), b);
  EXPECT_TRUE(member_of(b).draining);
  EXPECT_NE(serve(b), 0U) << "what it has not got is sent again";
  EXPECT_EQ(answer(1).epoch, 1U);
}

TEST_F(TakingOverTest, AVersionThatIsLeavingDoesNotChangeAgain) {
  const auto [a, b, old_a, old_b, new_a, next] = take_over_a_change(false);
  returns("a", a, {old_a, new_a});
  returns("b", b, {old_b});
  for (int i = 0; i < 8; ++i) {
    now_ += 5 * kSecond;
    news(a), news(b);
  }
  ASSERT_NE(coordinator_->jobs().current("train"), nullptr) << "no time limit is over";
  EXPECT_EQ(coordinator_->jobs().current("train")->epoch, next);
}

TEST_F(TakingOverTest, PlansAndSpeedsStayInForce) {
  const NodeId first = join("a");
  join("b");
  ASSERT_TRUE(coordinator_->set_plan("", stars(5), now_).ok());
  ASSERT_TRUE(coordinator_->set_plan("bert", stars(6), now_).ok());
  ASSERT_TRUE(coordinator_->set_speeds({{"a", {300, 200}}}).ok());
  coordinator_->open(1, opening(0), now_);
  const auto before = news(first).placements.at(0).plan;
  take_over();
  const NodeId a = join("a");
  EXPECT_EQ(member_of(a).measured.speed, 300U);
  EXPECT_EQ(member_of(a).measured.sum, 200U);
  EXPECT_EQ(coordinator_->in_force("bert")->machines.file.epoch, 6U);
  // The plan names "b", which has yet to come again: it counts as one that has left.
  coordinator_->open(2, opening(0), now_);
  const auto alone = news(a).placements;
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].plan_epoch, 5U);
  EXPECT_EQ(alone[0].plan, before) << "the cut is what it was";
  EXPECT_THAT(alone[0].stands_in_for, ElementsAre("b"));
  join("b");
  coordinator_->open(3, opening(0, "later"), now_);
  EXPECT_THAT(news(a).placements.at(0).stands_in_for, IsEmpty());
  EXPECT_THAT(store_.departed(), IsEmpty());
}

TEST_F(TakingOverTest, ADrainedMemberStaysDrained) {
  join("a");
  join("b");
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  take_over();
  take_over();  // before anybody has come again
  const NodeId a = join("a"), b = join("b");
  EXPECT_FALSE(member_of(a).draining);
  EXPECT_TRUE(member_of(b).draining);
  ASSERT_TRUE(coordinator_->drain("b", true, now_).ok());
  take_over();
  EXPECT_FALSE(member_of(join("b")).draining) << "it has been taken back";
}

TEST_F(TakingOverTest, ANodeThatLeavesAndJoinsAgainIsNotDrained) {
  join("a");
  const NodeId b = join("b");
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  coordinator_->leave(b, "it was replaced");
  take_over();
  EXPECT_FALSE(member_of(join("b")).draining);
}

// Between any two writes the one before may have ended.
TEST_F(TakingOverTest, AMemberThatTheStoreHasTwiceIsKeptOnce) {
  const NodeId a = join("a");
  join("b");
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  store_.put_departed(a, member("a", 7));
  const NodeId again = store_.next_node();
  store_.erase(a);
  store_.put(again, member("a"));
  take_over();
  ASSERT_EQ(store_.departed().size(), 2U);
  EXPECT_EQ(store_.departed().at(again).shards, 2U);
}

}  // namespace
}  // namespace tally::control
