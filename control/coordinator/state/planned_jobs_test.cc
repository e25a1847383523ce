// Jobs by plans that somebody has set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CoordinatorTest, NewJobsUseThePlan) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  coordinator_->open(1, opening(0, "before"), now_);
  for (const NodeId node : {a, b, c}) serve(node);
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  EXPECT_EQ(answer(1).plan_epoch, 0U);
  coordinator_->open(2, opening(1, "before"), now_);
  EXPECT_EQ(answer(2).nodes.size(), 3U) << "what runs keeps its plan";
  coordinator_->open(3, opening(0), now_);
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].plan_epoch, 5U);
  EXPECT_EQ(at_a.placements[0].nodes, 2U);
  EXPECT_THAT(at_a.placements[0].plan.classes.back().weights,
              ElementsAre(24576, 24576, 8192, 8192));
  EXPECT_EQ(at_a.placements[0].vertices.size(), 2U);
  coordinator_->report(a, {at_a.placements[0].id, false, ""});
  serve(b);
  EXPECT_TRUE(news(c).placements.empty());
  EXPECT_EQ(answer(3).plan_epoch, 5U);
  EXPECT_EQ(ranks_[3], 0U);
  coordinator_->drop_plan("", now_);
  coordinator_->open(4, opening(0, "after"), now_);
  EXPECT_EQ(news(c).placements.size(), 1U);
}

TEST_F(CoordinatorTest, AJobsOwnPlanOverridesThePlanForAll) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", stars(5), now_).ok());
  ASSERT_TRUE(coordinator_->set_plan("bert", stars(6), now_).ok());
  coordinator_->open(1, opening(0, "bert"), now_);
  coordinator_->open(2, opening(0, "other"), now_);
  std::vector<std::uint64_t> epochs;
  for (const JobAssignment& one : news(a).placements) epochs.push_back(one.plan_epoch);
  EXPECT_THAT(epochs, ElementsAre(6, 5));
  static_cast<void>(b);
  EXPECT_TRUE(news(c).placements.empty());
}

TEST_F(CoordinatorTest, RefusesAPlanThatNodesCannotServe) {
  const NodeId a = join("a");
  EXPECT_THAT(coordinator_->set_plan("", stars(), now_).error().message,
              HasSubstr("no members: \"b\""));
  EXPECT_EQ(coordinator_->plans().find("train"), nullptr);
  const NodeId b = join("b");
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  coordinator_->open(1, opening(0, "alone", "t", 1), now_);
  EXPECT_THAT(error(1), HasSubstr("job \"alone\": the plan of epoch 5 for all jobs has 2 workers "
                                  "and the job 1 ranks"));
  ASSERT_TRUE(coordinator_->set_plan("", deep(), now_).ok());
  coordinator_->leave(b, "gone");
  for (std::uint32_t rank : {0, 1}) coordinator_->open(2 + rank, opening(rank), now_);
  EXPECT_THAT(error(2), HasSubstr("job \"train\": \"b\" is drained or has left, and no node can"));
  EXPECT_TRUE(store_.jobs().empty());
  EXPECT_TRUE(news(a).placements.empty());
  join("b");
  for (std::size_t i = 1; i < kMaxPlans; ++i) {
    ASSERT_TRUE(coordinator_->set_plan(std::to_string(i), stars(), now_).ok());
  }
  EXPECT_THAT(coordinator_->set_plan("one more", stars(), now_).error().message,
              HasSubstr("64 plans are set"));
  EXPECT_TRUE(coordinator_->set_plan("1", stars(), now_).ok()) << "in place of another";
}

// Two workers and 1e9 bytes per second: the first helper's NIC carries 3/4 of both gradients.
TEST_F(CoordinatorTest, TheRateOfStarsDependsOnTheRanksOfEachMachine) {
  const NodeId a = join("a");
  join("b");
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  coordinator_->open(1, opening(0), now_);
  EXPECT_EQ(news(a).placements.at(0).rate, 666'666'666U);
  coordinator_->open(2, opening(0, "twice", "t", 4), now_);
  EXPECT_EQ(news(a).placements.at(0).rate, 333'333'333U) << "two of each worker's";
}

TEST_F(CoordinatorTest, ASubstituteServesForNodesThatHaveLeftOrAreDrained) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  coordinator_->open(1, opening(0, "before"), now_);
  const auto plan = news(a).placements.at(0).plan.classes.back().weights;
  coordinator_->close(1);
  coordinator_->leave(b, "its cable was cut");
  ASSERT_TRUE(coordinator_->drain("a", false, now_).ok());
  coordinator_->open(2, opening(0), now_);
  EXPECT_TRUE(news(a).placements.empty());
  const auto at_c = news(c).placements;
  ASSERT_EQ(at_c.size(), 1U);
  EXPECT_THAT(at_c[0].trees, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(at_c[0].stands_in_for, ElementsAre("a", "b"));
  EXPECT_EQ(at_c[0].plan.classes.back().weights, plan) << "the cut is what it was";
  EXPECT_THAT(coordinator_->jobs().load_of(c).stands_in_for, ElementsAre("a", "b"));
  EXPECT_THAT(coordinator_->jobs().load_of(a).stands_in_for, ElementsAre());
  // Whom no plan names is not remembered.
  coordinator_->drop_plan("", now_);
  EXPECT_THAT(coordinator_->set_plan("", stars(), now_).error().message,
              HasSubstr("no members: \"b\""));
  join("b");
  EXPECT_TRUE(coordinator_->set_plan("", stars(), now_).ok()) << "drained ones are members";
}

TEST_F(CoordinatorTest, APlanThatNeedsHostsWaitsForAllRanks) {
  const NodeId a = join("a"), b = join("b");
  ASSERT_TRUE(coordinator_->set_plan("train", deep(), now_).ok());
  coordinator_->open(1, opening(1, "train", "t", 3, "w0"), now_);
  coordinator_->open(2, opening(0, "train", "t", 3, "w1"), now_);
  EXPECT_TRUE(news(a).placements.empty());
  EXPECT_TRUE(waits(1));
  coordinator_->open(3, opening(2, "train", "t", 3, "w0"), now_);
  const auto at_a = news(a), at_b = news(b);
  ASSERT_EQ(at_a.placements.size(), 1U);
  ASSERT_EQ(at_b.placements.size(), 1U);
  const JobAssignment& inner = at_a.placements[0];
  const JobAssignment& root = at_b.placements[0];
  EXPECT_THAT(inner.vertices.at(0).ranks, ElementsAre(1, 2));
  EXPECT_THAT(root.vertices.at(0).ranks, ElementsAre(0));
  EXPECT_EQ(root.vertices.at(0).height, 2U);
  EXPECT_EQ(inner.above.at(inner.vertices.at(0).parent),
            (RemoteShard{"b", "tcp:b:7733", "", 0, 2}));
  EXPECT_EQ(root.below.at(root.vertices.at(1).child_nodes.at(0).number),
            (RemoteShard{"a", "tcp:a:7733", "", 1, 1}));
  // A release that cannot serve it reports that, and all ranks get the reason.
  coordinator_->report(a, {inner.id, false, "trees deeper than stars need more"});
  EXPECT_THAT(error(1), HasSubstr("node \"a\": trees deeper than stars"));
  EXPECT_THAT(error(3), HasSubstr("node \"a\": trees deeper than stars"));
}

TEST_F(CoordinatorTest, ARankThatWaitsForOthersMayLeave) {
  const NodeId a = join("a");
  join("b");
  ASSERT_TRUE(coordinator_->set_plan("train", deep(), now_).ok());
  coordinator_->open(1, opening(0, "train", "t", 2, "w0"), now_);
  coordinator_->close(1);
  EXPECT_TRUE(store_.jobs().empty());
  // The host is that of who came last in the rank's place.
  coordinator_->open(2, opening(0, "train", "t", 2, "w1"), now_);
  coordinator_->open(3, opening(1, "train", "t", 2, "elsewhere"), now_);
  EXPECT_THAT(news(a).placements.at(0).vertices.at(0).ranks, ElementsAre(0))
      << "no host is a worker's: by their numbers";
  EXPECT_TRUE(waits(2));
}

TEST_F(CoordinatorTest, DroppingThePlanPlacesAJobThatWaitedForRanks) {
  const NodeId a = join("a");
  join("b");
  ASSERT_TRUE(coordinator_->set_plan("train", deep(), now_).ok());
  coordinator_->open(1, opening(0), now_);
  EXPECT_TRUE(news(a).placements.empty());
  coordinator_->drop_plan("train", now_);
  EXPECT_EQ(news(a).placements.size(), 1U);
}

}  // namespace
}  // namespace tally::control
