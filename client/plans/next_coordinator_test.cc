// How a rank goes on at the next coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/client/plan_change_fixture.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Kind = PlanStep::Kind;

// The coordinator ends, and the rank finds another one when the test says so.
class NextCoordinatorTest : public PlanChangeTest {
 protected:
  NextCoordinatorTest() : PlanChangeTest(search()) {}
  ~NextCoordinatorTest() override {
    change_.end();
    end_answers();
  }

  // Returns the step with which the search begins.
  PlanStep lose_coordinator() {
    end();
    PlanStep step;
    while (searched_.empty()) step = change_.next(0);
    return step;
  }
  void find(std::uint32_t epoch) {
    next_ = node("-next");
    rpc::HighestTerm term = known_term();
    found_.set_value(ResumedJob{channel_to(*next_), epoch, term});
  }
  void find_none() { found_.set_value(Error{Status::kUnavailable, "no node answers"}); }
  // The reports to the next coordinator, when it has got `last`.
  int count_reports_to_next(const std::string& report) {
    std::swap(node_, next_);
    return count_reports(report, report);
  }

  std::vector<std::uint32_t> searched_;  // the epochs that the search was for

 private:
  PlanChange::Search search() {
    return [this](const std::vector<std::uint32_t>& epochs, const rpc::HighestTerm& term) {
      searched_ = epochs;
      EXPECT_EQ(term.value(), kTerm);
      return [this](const std::atomic<bool>& stop) -> Result<ResumedJob> {
        auto found = found_.get_future();
        while (found.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
          if (stop) return Error{Status::kCancelled, "stopped"};
        }
        return found.get();
      };
    };
  }

  std::promise<Result<ResumedJob>> found_;
  std::unique_ptr<ScriptedNode> next_;
};

TEST_F(NextCoordinatorTest, IsAskedFromThenOn) {
  EXPECT_THAT(lose_coordinator().note, HasSubstr("this rank looks for the next one"));
  EXPECT_EQ(searched_, std::vector<std::uint32_t>{kEpoch});
  EXPECT_TRUE(change_.repairs());
  EXPECT_TRUE(change_.fd_has_changed());
  begin_answers();
  find(kEpoch);
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("the coordinator is now at"));
  EXPECT_TRUE(change_.fd_has_changed());
  prepare();
}

TEST_F(NextCoordinatorTest, FollowsOneThatStandsStill) {
  EXPECT_EQ(change_.next(change_.silent_until() - 1).kind, Kind::kNone);
  EXPECT_TRUE(searched_.empty());
  const PlanStep step = change_.next(change_.silent_until());
  EXPECT_THAT(step.note, HasSubstr("it has been silent for too long"));
  EXPECT_EQ(searched_, std::vector<std::uint32_t>{kEpoch});
  EXPECT_EQ(change_.silent_until(), kForever) << "the search has its own limits";
}

TEST_F(NextCoordinatorTest, AChangeWithoutADecisionIsOff) {
  prepare();
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.plans().holds());
  EXPECT_TRUE(change_.has_coordinator());
}

TEST_F(NextCoordinatorTest, ARankThatKnowsChangesWithTheOthers) {
  const OperationBook old(config());
  prepare();
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  EXPECT_EQ(searched_, (std::vector<std::uint32_t>{kEpoch, 4}));
  EXPECT_TRUE(change_.plans().holds());
  begin_answers();
  find(4);
  ASSERT_EQ(wait_for_step().kind, Kind::kGo);
  change_.plans().go({{7, 3}});
  EXPECT_FALSE(change_.needs_old(old));
  change_.moved();
  answer_next("leave");
  ASSERT_EQ(wait_for_step().kind, Kind::kLeave);
  change_.left();
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kSteady);
  EXPECT_EQ(count_reports_to_next("left"), 1);
}

TEST_F(NextCoordinatorTest, ARankThatKnowsStaysWithTheOthers) {
  prepare();
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find(kEpoch);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_FALSE(change_.plans().holds());
}

// The others have moved to a version of which this rank does not know that it is in use.
TEST_F(NextCoordinatorTest, ARankThatKnewIsInterruptedMeanwhile) {
  prepare();
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  change_.interrupt(kEpoch, "node b is gone", 0);
  find(4);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_EQ(count_reports_to_next("lost"), 1);
}

TEST_F(NextCoordinatorTest, ARankThatKnewWasInterruptedBefore) {
  prepare();
  know();
  change_.interrupt(kEpoch, "node b is gone", 0);
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  EXPECT_EQ(searched_, (std::vector<std::uint32_t>{kEpoch, 4}));
  find(4);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_EQ(count_reports_to_next("lost"), 1);
}

TEST_F(NextCoordinatorTest, GetsTheReportOfALossAgain) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  change_.interrupt(kEpoch, "node b is gone", 0);
  EXPECT_EQ(change_.silent_until(), kForever) << "the search has its own limit";
  find(kEpoch);
  EXPECT_EQ(wait_for_step().kind, Kind::kDropNext);
  EXPECT_TRUE(change_.is_interrupted());
  EXPECT_TRUE(change_.plans().holds());
  EXPECT_NE(change_.silent_until(), kForever);
  EXPECT_EQ(count_reports_to_next("lost"), 1);
}

TEST_F(NextCoordinatorTest, FinishesARepairForWhichAllHadDecided) {
  change_.interrupt(kEpoch, "node b is gone", 0);
  answer_next({{"change", "prepare"}, {"epoch", 4}, {"nodes", json::array()}, {"repair", true}});
  ASSERT_EQ(wait_for_step().kind, Kind::kPrepare);
  change_.prepared(4, {}, 0);
  know();
  EXPECT_EQ(lose_coordinator().kind, Kind::kNone);
  find(4);
  ASSERT_EQ(wait_for_step().kind, Kind::kRepaired);
  EXPECT_EQ(change_.repaired().first.at(7), 3U);
}

TEST_F(NextCoordinatorTest, OnlyWithTheJobsVersion) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  find(9);
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kEndSession);
  EXPECT_THAT(step.why.message, HasSubstr("has version 9 of the job, and this rank version 3"));
}

TEST_F(NextCoordinatorTest, ARankThatHasMovedReportsItAgain) {
  const OperationBook old(config());
  prepare();
  know();
  answer_next("go");
  ASSERT_EQ(wait_for_step().kind, Kind::kGo);
  change_.plans().go({{7, 3}});
  change_.moved();
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  EXPECT_EQ(searched_.front(), 4U);
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kMoving);
  begin_answers();
  find(4);
  EXPECT_THAT(wait_for_step().note, HasSubstr("the coordinator is now at"));
  answer_next("leave");
  ASSERT_EQ(wait_for_step().kind, Kind::kLeave);
  change_.left();
  EXPECT_EQ(change_.plans().stage(), PlanSwitch::Stage::kSteady);
  EXPECT_EQ(count_reports_to_next("moved"), 1);
}

TEST_F(NextCoordinatorTest, WithoutOneAnInterruptedRankGivesUp) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  change_.interrupt(kEpoch, "node b is gone", 0);
  find_none();
  const PlanStep step = wait_for_step();
  ASSERT_EQ(step.kind, Kind::kEndSession);
  EXPECT_EQ(step.why.status, Status::kNodeLost);
  EXPECT_THAT(step.why.message, HasSubstr("node b is gone; the coordinator at"));
  EXPECT_THAT(step.why.message, HasSubstr("no node answers"));
}

TEST_F(NextCoordinatorTest, WithoutOneTheJobRunsOn) {
  EXPECT_EQ(lose_coordinator().kind, Kind::kDropNext);
  find_none();
  const PlanStep step = wait_for_step();
  EXPECT_EQ(step.kind, Kind::kDropNext);
  EXPECT_THAT(step.note, HasSubstr("no node answers; the job runs on"));
  EXPECT_FALSE(change_.has_coordinator());
  EXPECT_FALSE(change_.repairs());
}

}  // namespace
}  // namespace tally::client
