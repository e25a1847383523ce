#include "control/coordinator/state/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/coordinator_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CoordinatorTest, WithoutMembersThereAreNoNodes) {
  coordinator_->open(1, opening(0), now_);
  EXPECT_TRUE(answer(1).nodes.empty());
  EXPECT_EQ(coordinator_->next_deadline(), kForever);
}

TEST_F(CoordinatorTest, AJobIsOpenWhenAllItsNodesServeIt) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(1), now_);
  EXPECT_TRUE(waits(1));
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  const JobAssignment& placed = at_a.placements[0];
  EXPECT_EQ(placed.job, "train");
  EXPECT_EQ(placed.ranks, 2U);
  EXPECT_EQ(placed.nodes, 2U);
  EXPECT_THAT(placed.trees, ElementsAre(0, 1));
  EXPECT_THAT(placed.plan.classes.back().weights, ElementsAre(16384, 16384, 16384, 16384));
  coordinator_->report(a, {placed.id, false, ""});
  EXPECT_TRUE(waits(1));
  coordinator_->open(2, opening(0), now_);
  EXPECT_TRUE(waits(2)) << "the others of an instance get the same answer";
  EXPECT_NE(serve(b), placed.id);
  EXPECT_EQ(answer(1).nodes.size(), 2U);
  EXPECT_EQ(answer(2).epoch, answer(1).epoch);
  EXPECT_THAT(answer(2).nodes[1].trees, ElementsAre(2, 3));
  EXPECT_EQ(answer(2).nodes[1].member.tcp, "tcp:b:7733");
  EXPECT_EQ(coordinator_->jobs().load_of(a).jobs, 1U);
}

TEST_F(CoordinatorTest, RefusesWrongTokensAndWhatAdmissionRefuses) {
  options_.jobs = {{"bert", "secret", 7, 3}};
  options_.max_jobs = 2;
  options_.max_ranks = 4;
  coordinator_.emplace(options_, store_);
  const auto a = coordinator_->join(member("a"), 0, now_);
  ASSERT_TRUE(a.ok());
  EXPECT_THAT(coordinator_->join(member("a"), 0, now_).error().message,
              HasSubstr("\"a\" is a member already, at tcp:a:7733"));
  EXPECT_TRUE(coordinator_->members().has(*a).ok());
  EXPECT_FALSE(coordinator_->members().has(*a + 1).ok());
  coordinator_->listen(*a, now_ + kHold);
  coordinator_->open(1, opening(0), now_);
  serve(*a);
  EXPECT_EQ(error(1), "");
  coordinator_->open(2, opening(1, "train", "u"), now_);
  EXPECT_EQ(error(2), "job \"train\": wrong token");
  coordinator_->open(3, opening(1, "train", "t", 3), now_);
  EXPECT_EQ(error(3), "job \"train\" has 2 ranks, rank 1 says 3");
  coordinator_->open(4, opening(0), now_);
  EXPECT_EQ(error(4), "job \"train\": rank 0 is taken; is another run of this job still alive?");
  coordinator_->open(5, opening(0, "bert"), now_);
  EXPECT_EQ(error(5), "job \"bert\": wrong token");
  coordinator_->open(6, opening(0, "bert", "secret"), now_);
  EXPECT_EQ(error(6), "job \"bert\" is configured with 3 ranks, rank 0 says 2");
  coordinator_->open(7, opening(0, "wide", "", 5), now_);
  EXPECT_EQ(error(7), "job \"wide\": 5 ranks, max_ranks is 4");
  coordinator_->open(8, opening(0, "bert", "secret", 3), now_);
  EXPECT_EQ(news(*a).placements.at(0).weight, 7U);
  coordinator_->open(9, opening(0, "third"), now_);
  EXPECT_EQ(error(9), "job \"third\": the coordinator has 2 jobs and max_jobs is 2");
  options_.open_jobs = false;
  coordinator_.emplace(options_, store_);
  ASSERT_TRUE(coordinator_->join(member("a"), 0, now_).ok());
  coordinator_->open(10, opening(0, "closed"), now_);
  EXPECT_THAT(error(10), HasSubstr("not configured at the coordinator"));
}

TEST_F(CoordinatorTest, ANodeThatRefusesEndsTheJobForAllNodes) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  const std::uint64_t at_a = serve(a);
  const auto at_b = news(b).placements.at(0);
  const std::uint64_t at_c = news(c).placements.at(0).id;
  coordinator_->report(b, {at_b.id, false, "max_jobs is 64"});
  EXPECT_EQ(error(1), "job \"train\": node \"b\": max_jobs is 64");
  EXPECT_EQ(error(2), error(1));
  EXPECT_THAT(news(a).withdraw, ElementsAre(at_a));
  EXPECT_THAT(news(c).withdraw, ElementsAre(at_c));
  EXPECT_TRUE(news(b).withdraw.empty());
  EXPECT_EQ(store_.jobs().size(), 1U) << "until they have let go of it";
  coordinator_->report(c, {at_c, false, ""});  // crossed the withdrawal
  EXPECT_EQ(store_.jobs().size(), 1U);
  coordinator_->report(a, {at_a, true, ""});
  coordinator_->report(c, {at_c, true, ""});
  EXPECT_TRUE(store_.jobs().empty());
}

TEST_F(CoordinatorTest, ANodeThatLeavesBeforeItServesTheJobEndsTheJobForAllNodes) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  serve(a);
  coordinator_->leave(b, "its connection ended");
  EXPECT_EQ(error(1), "job \"train\": node \"b\" has left: its connection ended");
  EXPECT_EQ(news(a).withdraw.size(), 1U);
  // The next one is over those who are there.
  coordinator_->open(2, opening(0), now_);
  serve(a);
  EXPECT_EQ(answer(2).nodes.size(), 1U);
  EXPECT_GT(answer(2).epoch, 1U);
  EXPECT_EQ(coordinator_->jobs().load_of(a).jobs, 1U);
}

TEST_F(CoordinatorTest, AnAssignmentThatWasNotSentIsNotWithdrawn) {
  const NodeId a = join("a");
  const auto b = coordinator_->join(member("b"), 0, now_);  // does not listen yet
  coordinator_->open(1, opening(0), now_);
  news(a);
  coordinator_->leave(a, "x");
  EXPECT_NE(error(1), "");
  EXPECT_TRUE(store_.jobs().empty());
  EXPECT_TRUE(news(*b).placements.empty());
  EXPECT_TRUE(news(*b).withdraw.empty());
}

TEST_F(CoordinatorTest, ANodeThatLeavesWhileTheJobRunsLetsItFormAgain) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  const std::uint64_t at_a = serve(a);
  serve(b);
  EXPECT_EQ(answer(1).epoch, 1U);
  coordinator_->leave(b, "x");
  EXPECT_THAT(news(a).withdraw, ElementsAre(at_a));
  coordinator_->open(2, opening(0), now_);
  serve(a);
  EXPECT_EQ(answer(2).epoch, 2U);
  coordinator_->report(a, {at_a, true, ""});
  EXPECT_EQ(store_.jobs().size(), 1U);
  coordinator_->leave(a, "x");
  EXPECT_TRUE(store_.jobs().empty());
}

TEST_F(CoordinatorTest, FormsAgainAfterTheFirstNodeReportsItsEnd) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  const std::uint64_t at_a = serve(a), at_b = serve(b);
  EXPECT_EQ(answer(1).epoch, 1U);
  coordinator_->open(3, opening(0), now_);
  EXPECT_THAT(error(3), HasSubstr("is taken"));
  coordinator_->report(a, {at_a, true, ""});
  coordinator_->open(4, opening(0), now_);
  EXPECT_TRUE(waits(4));
  const auto at_b_again = news(b);
  EXPECT_THAT(at_b_again.withdraw, ElementsAre(at_b));
  ASSERT_EQ(at_b_again.placements.size(), 1U);
  EXPECT_EQ(at_b_again.placements[0].epoch, 2U);
  coordinator_->report(b, {at_b_again.placements[0].id, false, ""});
  coordinator_->report(b, {at_b, true, ""});
  serve(a);
  EXPECT_EQ(answer(4).epoch, 2U);
  coordinator_->report(a, {at_a, true, ""});  // nobody knows that number any more
  EXPECT_EQ(coordinator_->jobs().load_of(a).jobs, 1U);
  EXPECT_EQ(store_.jobs().size(), 1U);
}

TEST_F(CoordinatorTest, ARankOfAJobThatEndsIsAskedToTryAgain) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  const std::uint64_t at_a = serve(a);
  coordinator_->open(3, opening(0, "train", "t", 1), now_);
  coordinator_->close(1);
  coordinator_->open(4, opening(0, "train", "t", 1), now_);
  coordinator_->open(5, opening(1), now_);
  act();
  EXPECT_EQ(answers_.at(3).status(), Status::kRefused) << "both ranks are there";
  EXPECT_EQ(answers_.at(4).status(), Status::kStaleEpoch);
  EXPECT_EQ(answers_.at(5).status(), Status::kStaleEpoch);
  EXPECT_THAT(error(5), HasSubstr("rank 1 is taken"));
  coordinator_->report(a, {at_a, true, ""});
  coordinator_->open(6, opening(0, "train", "t", 1), now_);
  serve(a);
  EXPECT_EQ(answer(6).ranks, 1U);
}

TEST_F(CoordinatorTest, TwoJobsDoNotTouchEachOther) {
  const NodeId a = join("a"), b = join("b");
  coordinator_->open(1, opening(0), now_);
  serve(a);
  coordinator_->open(2, opening(0, "other"), now_);
  const auto at_a = news(a).placements.at(0);
  coordinator_->report(b, {news(b).placements.at(0).id, false, "no"});
  serve(b);
  EXPECT_EQ(error(1), "job \"train\": node \"b\": no");
  EXPECT_TRUE(waits(2));
  coordinator_->report(a, {at_a.id, false, ""});
  EXPECT_NE(answer(2).epoch, 1U);
}

TEST_F(CoordinatorTest, EpochsAreLargerThanThoseOfAnyNode) {
  EXPECT_TRUE(coordinator_->join(member("old"), 41, now_).ok());
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  EXPECT_EQ(news(a).placements.at(0).epoch, 42U);
  coordinator_->open(2, opening(0, "other"), now_);
  EXPECT_EQ(news(a).placements.at(0).epoch, 43U);
}

TEST_F(CoordinatorTest, NamesNodesThatDoNotServeTheJobInTime) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  coordinator_->open(1, opening(0), now_);
  serve(a);
  news(b);
  EXPECT_EQ(coordinator_->next_deadline(), kNow + kPlacingTimeout);
  now_ += kPlacingTimeout - 1;
  EXPECT_TRUE(waits(1));
  ++now_;
  EXPECT_EQ(error(1),
            "job \"train\": these nodes have not taken it within 10 s: \"b\", \"c\": look at their "
            "logs");
  EXPECT_EQ(news(a).withdraw.size(), 1U);
  EXPECT_EQ(news(b).withdraw.size(), 1U);
  news(c);
}

TEST_F(CoordinatorTest, ANodeThatDoesNotAskForNewsHasLeft) {
  const NodeId a = join("a"), b = join("b");
  now_ += kHold;
  EXPECT_TRUE(news(a).placements.empty());  // an answer all the same
  act();
  now_ += kHold;
  news(a);
  now_ += kMostSilence - kHold;
  act();
  EXPECT_THAT(lost_, ElementsAre(b));
  EXPECT_EQ(store_.members().size(), 1U);
  EXPECT_TRUE(coordinator_->join(member("b"), 0, now_).ok());
}

TEST_F(CoordinatorTest, ARankThatLeavesFreesItsPlace) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  coordinator_->close(1);
  coordinator_->open(3, opening(0), now_);
  serve(a);
  EXPECT_EQ(answer(2).epoch, answer(3).epoch);
  EXPECT_FALSE(answers_.contains(1));
  coordinator_->close(2);
  coordinator_->open(4, opening(1), now_);
  EXPECT_EQ(answer(4).epoch, answer(3).epoch) << "the node knows whether it is still there";
}

TEST_F(CoordinatorTest, AJobWithoutWaitingRanksIsWithdrawn) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  const auto placed = news(a).placements.at(0).id;
  coordinator_->close(1);
  EXPECT_THAT(news(a).withdraw, ElementsAre(placed));
  coordinator_->report(a, {placed, false, ""});
  coordinator_->report(a, {placed, true, ""});
  EXPECT_TRUE(store_.jobs().empty());
  coordinator_->close(1);
}

TEST_F(CoordinatorTest, JobsThatAreOverCountTowardsALimit) {
  options_.max_jobs = 1;
  coordinator_.emplace(options_, store_);
  const NodeId a = join("a");
  Coordinator::Ticket ticket = 0;
  for (int i = 0; i < 4; ++i) {
    coordinator_->open(++ticket, opening(0), now_);
    news(a);
    coordinator_->close(ticket);
  }
  coordinator_->open(++ticket, opening(0), now_);
  EXPECT_THAT(error(ticket), HasSubstr("4 jobs are over and their nodes have yet to let go"));
}

TEST_F(CoordinatorTest, RefusesMoreMembersThanTheLimit) {
  for (std::size_t i = 0; i < kMaxMembers; ++i) join(std::to_string(i).c_str());
  EXPECT_THAT(coordinator_->join(member("one"), 0, now_).error().message,
              HasSubstr("there are 256 members"));
  coordinator_->open(1, opening(0), now_);
  act();
  for (auto& [node, sent] : sent_) {
    ASSERT_EQ(sent.placements.size(), 1U);
    EXPECT_EQ(sent.placements[0].trees.size(), 1U);
    EXPECT_TRUE(protocol::valid(sent.placements[0].plan));
  }
  EXPECT_EQ(sent_.size(), kMaxMembers);
}

}  // namespace
}  // namespace tally::control
