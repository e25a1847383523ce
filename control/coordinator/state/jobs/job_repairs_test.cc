#include "control/coordinator/state/jobs/job_repairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/placed_jobs.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobRepairsTest : public ::testing::Test {
 protected:
  JobState& lose(std::uint32_t epoch) {
    JobState& state = jobs_.add(job_record(epoch, {1}));
    state.stage = JobStage::kRepairing;
    state.repair.emplace().why = "node lost";
    return state;
  }
  // As an attempt that has failed leaves it.
  static void fail(JobState& state) {
    state.next = 0;
    ++state.repair->attempts;
    state.repair->attempt_at.reset();
  }

  MemoryStore store_;
  JobTable jobs_{store_};
  JobRepairs repairs_{jobs_};
};

TEST_F(JobRepairsTest, TheFirstAttemptIsMadeAtOnce) {
  EXPECT_EQ(repairs_.next_deadline(), kForever);
  JobState& state = lose(1);
  EXPECT_LE(repairs_.next_deadline(), kNow);
  EXPECT_THAT(repairs_.due(kNow).attempts, ElementsAre(1));
  EXPECT_EQ(state.repair->since, kNow);
  state.next = 2;
  EXPECT_THAT(repairs_.due(kNow).attempts, IsEmpty()) << "an attempt is under way";
  EXPECT_EQ(repairs_.next_deadline(), kNow + kRepairTimeout);
}

TEST_F(JobRepairsTest, TheFirstAttemptWaitsForTheRanksOfAnEarlierCoordinator) {
  constexpr Nanos kUntil = kNow + 10 * kSecond;
  JobState& state = lose(1);
  state.resume_until = kUntil;
  jobs_.take_place(11, 1, 0, "");
  jobs_.listen(11, true);
  EXPECT_THAT(repairs_.due(kNow).attempts, IsEmpty());
  EXPECT_EQ(repairs_.next_deadline(), kUntil);
  EXPECT_EQ(delay_of_repair(jobs_, 1).why, "waits for rank 1 to come to this coordinator");
  jobs_.take_place(12, 1, 1, "");
  jobs_.listen(12, true);
  EXPECT_THAT(repairs_.due(kNow + 1).attempts, ElementsAre(1));
}

TEST_F(JobRepairsTest, GivesUpWhenRanksDoNotComeBack) {
  lose(1).resume_until = kNow + 1;
  EXPECT_THAT(repairs_.due(kNow).not_resumed, IsEmpty());
  EXPECT_THAT(repairs_.due(kNow + 1).not_resumed, ElementsAre(1));
}

TEST_F(JobRepairsTest, PausesGrowUpToALimit) {
  JobState& state = lose(1);
  Nanos now = kNow;
  for (const Nanos times : {1, 2, 4, 8, 16, 16}) {
    ASSERT_THAT(repairs_.due(now).attempts, ElementsAre(1));
    fail(state);
    EXPECT_THAT(repairs_.due(now).attempts, IsEmpty());
    EXPECT_EQ(repairs_.next_deadline(), now + times * kRepairPause);
    now = repairs_.next_deadline();
  }
}

TEST_F(JobRepairsTest, AttemptsDoNotWaitWhenMembersHaveChanged) {
  JobState& state = lose(1);
  repairs_.due(kNow);
  fail(state);
  repairs_.members_changed();
  EXPECT_THAT(repairs_.due(kNow).attempts, ElementsAre(1));
}

TEST_F(JobRepairsTest, WithoutAPlanARepairWaitsForMembers) {
  lose(1);
  repairs_.due(kNow);
  repairs_.wait_for_members(1, "no node is left");
  repairs_.wait_for_members(2, "there is no such job");
  EXPECT_THAT(repairs_.due(kNow + kSecond).attempts, IsEmpty());
  EXPECT_EQ(repairs_.next_deadline(), kNow + kRepairTimeout);
  EXPECT_EQ(delay_of_repair(jobs_, 1).why, "no node is left");
  repairs_.members_changed();
  EXPECT_THAT(repairs_.due(kNow + kSecond).attempts, ElementsAre(1));
}

TEST_F(JobRepairsTest, AllAttemptsTogetherHaveOneLimit) {
  JobState& state = lose(1);
  repairs_.due(kNow);
  fail(state);
  EXPECT_THAT(repairs_.due(kNow + kRepairTimeout - 1).expired, IsEmpty());
  const auto due = repairs_.due(kNow + kRepairTimeout);
  EXPECT_THAT(due.expired, ElementsAre(1));
  EXPECT_THAT(due.attempts, IsEmpty());
}

TEST_F(JobRepairsTest, NamesWhatARepairWaitsFor) {
  JobState& state = lose(1);
  EXPECT_EQ(delay_of_repair(jobs_, 1).why, "is about to be repaired");
  state.next = 2;
  jobs_.add(job_record(2, {1, 2})).unconfirmed = {2};
  EXPECT_EQ(delay_of_repair(jobs_, 1).why, "waits for \"b\" to take its trees");
  state.change = Change::repair(2);
  state.change->report(0, Change::Report::kReady);
  EXPECT_THAT(delay_of_repair(jobs_, 1).why, HasSubstr("rank 1 to open sessions"));
  EXPECT_EQ(delay_of_repair(jobs_, 1).culprit, 1U);
  state.change->report(1, Change::Report::kReady);
  EXPECT_THAT(delay_of_repair(jobs_, 1).why, HasSubstr("ranks 0, 1 to know of"));
}

}  // namespace
}  // namespace tally::control
