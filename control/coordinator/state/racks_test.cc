// Jobs of members that have racks: trees that the coordinator plans by itself, and stars until they
// are made or where they do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/changing_fixture.h"
#include "tests/support/control/racked_members.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RacksTest : public ChangingTest {
 protected:
  RacksTest() {
    options_.plans_racks = true;
    coordinator_.emplace(options_, store_);
    for (const char* name : {"a", "b", "c", "d"}) {
      nodes_.push_back(
          coordinator_->join(racked(name, nodes_.size() < 2 ? "r1" : "r2"), 0, now_).value());
      coordinator_->listen(nodes_.back(), now_ + kHold);
    }
  }

  // The number of the plan that the coordinator wants made, 0 for none.
  std::uint64_t request() {
    act();
    return std::exchange(requested_, 0);
  }
  void plan() {
    const std::uint64_t number = request();
    ASSERT_NE(number, 0U);
    EXPECT_TRUE(coordinator_->planned(number, trees_of_two_racks(), now_));
  }
  void open_all(const char* job = "train") {
    const char* const hosts[] = {"a", "b", "c", "d"};
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      coordinator_->open(rank + 1, opening(rank, job, "t", 4, hosts[rank]), now_);
    }
  }
  // The ranks of a job have their answers, and wait for changes.
  void start_job() {
    open_all();
    for (const NodeId node : nodes_) serve(node);
    for (Coordinator::Ticket ticket : {1, 2, 3, 4}) {
      EXPECT_EQ(error(ticket), "");
      coordinator_->listen(ticket);
    }
  }

  PlanSource source() const { return coordinator_->jobs().current("train")->made_by->source; }

  std::vector<NodeId> nodes_;
};

TEST_F(RacksTest, AJobHasTheTreesThatThePlannerMade) {
  plan();
  EXPECT_EQ(coordinator_->in_force("train")->source, PlanSource::kRacks);
  coordinator_->open(1, opening(0, "train", "t", 4, "a"), now_);
  EXPECT_THAT(news(nodes_[0]).placements, IsEmpty()) << "trees wait for the machines of all ranks";
  coordinator_->close(1);
  open_all();
  const auto root = news(nodes_[0]).placements, inner = news(nodes_[2]).placements;
  ASSERT_EQ(root.size(), 1U);
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_EQ(root[0].vertices.at(0).height, 2U);
  EXPECT_THAT(root[0].vertices.at(0).ranks, ElementsAre(0, 1));
  EXPECT_THAT(inner[0].vertices.at(0).ranks, ElementsAre(2, 3));
  EXPECT_EQ(root[0].plan_epoch, 0U);
  EXPECT_THAT(news(nodes_[1]).placements, IsEmpty());
  EXPECT_EQ(source(), PlanSource::kRacks);
}

TEST_F(RacksTest, JobsHaveStarsUntilThePlanIsMadeAndThenChange) {
  const std::uint64_t number = request();
  ASSERT_NE(number, 0U);
  open_all();
  for (const NodeId node : nodes_) serve(node);
  EXPECT_EQ(source(), PlanSource::kClosedForm);
  for (Coordinator::Ticket ticket : {1, 2, 3, 4}) {
    EXPECT_EQ(error(ticket), "");
    coordinator_->listen(ticket);
  }
  EXPECT_TRUE(coordinator_->planned(number, trees_of_two_racks(), now_));
  act();
  for (const NodeId node : {nodes_[0], nodes_[2]}) serve(node);
  EXPECT_THAT(instructions(), ElementsAre(Word::kPrepare));
  for (const Report report : {Report::kReady, Report::kKnows, Report::kMoved, Report::kLeft}) {
    for (Coordinator::Ticket ticket : {1, 2, 3, 4}) {
      coordinator_->report(ticket, next_, {report, {}});
    }
    instructions();
  }
  EXPECT_EQ(epoch(), next_);
  EXPECT_EQ(source(), PlanSource::kRacks);
}

TEST_F(RacksTest, AMemberThatLeavesMakesAnotherPlanNecessary) {
  plan();
  coordinator_->leave(nodes_[3], "gone");
  EXPECT_NE(request(), 0U);
  EXPECT_EQ(coordinator_->in_force("train")->source, PlanSource::kClosedForm) << "meanwhile";
}

TEST_F(RacksTest, AJobOfOtherMachinesHasStars) {
  plan();
  for (std::uint32_t rank : {0, 1}) {
    coordinator_->open(rank + 1, opening(rank, "train", "t", 2, rank == 0 ? "a" : "b"), now_);
  }
  EXPECT_EQ(news(nodes_[3]).placements.size(), 1U);
  EXPECT_EQ(source(), PlanSource::kClosedForm);
}

TEST_F(RacksTest, ADrainedNodesTreesGoToASubstituteWhileAnotherPlanIsMade) {
  plan();
  start_job();
  ASSERT_TRUE(coordinator_->drain("c", false, now_).ok());
  EXPECT_NE(request(), 0U);
  const auto at_b = news(nodes_[1]).placements, at_d = news(nodes_[3]).placements;
  ASSERT_EQ(at_b.size() + at_d.size(), 1U) << "trees as before, with one substitute";
  EXPECT_THAT((at_b.empty() ? at_d : at_b)[0].stands_in_for, ElementsAre("c"));
}

TEST_F(RacksTest, WithoutRacksAnyMoreAJobReturnsToStars) {
  for (const NodeId node : nodes_) coordinator_->leave(node, "to come again without a rack");
  nodes_.clear();
  std::map<std::string, Measured> measured;
  for (const char* name : {"a", "b", "c", "d"}) {
    nodes_.push_back(join(name));
    measured[name] = {1'000'000'000, 0, {nodes_.size() < 3 ? "r1" : "r2", 0, 0}};
  }
  ASSERT_TRUE(coordinator_->set_speeds(measured).ok());
  plan();
  start_job();
  EXPECT_EQ(source(), PlanSource::kRacks);
  ASSERT_TRUE(coordinator_->set_speeds({}).ok());
  coordinator_->replan("");
  act();
  for (const NodeId node : nodes_) EXPECT_EQ(news(node).placements.size(), 1U);
}

TEST_F(RacksTest, AnOperatorsPlanOverridesTheCoordinatorsOwn) {
  plan();
  MachinePlan own{trees_of_two_racks(), 0};
  own.file.epoch = 9;
  ASSERT_TRUE(coordinator_->set_plan("", own, now_).ok());
  EXPECT_EQ(coordinator_->in_force("train")->source, PlanSource::kFile);
  coordinator_->drop_plan("", now_);
  EXPECT_EQ(coordinator_->in_force("train")->source, PlanSource::kRacks);
}

TEST_F(RacksTest, AFailureLeavesStarsInForce) {
  const std::uint64_t number = request();
  EXPECT_FALSE(coordinator_->planned(number, Error{Status::kRefused, "no"}, now_));
  EXPECT_EQ(request(), 0U);
  EXPECT_EQ(coordinator_->in_force("train")->source, PlanSource::kClosedForm);
  open_all();
  EXPECT_EQ(news(nodes_[1]).placements.size(), 1U);
}

}  // namespace
}  // namespace tally::control
