#include "control/coordinator/state/jobs/plan_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/control/placed_jobs.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PlanChangesTest : public ::testing::Test {
 protected:
  // A running job whose ranks can be notified of changes.
  JobState& run(std::uint32_t epoch, const char* name, std::shared_ptr<const SetPlan> made_by) {
    JobRecord job = job_record(epoch, {1}, name);
    job.made_by = std::move(made_by);
    JobState& state = jobs_.add(job);
    state.stage = JobStage::kRunning;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      jobs_.take_place(10 * epoch + rank, epoch, rank, "");
      jobs_.listen(10 * epoch + rank);
    }
    return state;
  }

  MemoryStore store_;
  Plans plans_{store_};
  JobTable jobs_{store_};
  PlanChanges changes_{jobs_, plans_};
  const std::shared_ptr<const SetPlan> closed_form_ =
      std::make_shared<const SetPlan>(SetPlan{"", stars(), PlanSource::kClosedForm});
};

TEST_F(PlanChangesTest, OnlyTheNamedJobGetsThePlanInForce) {
  run(1, "a", closed_form_);
  JobState& b = run(2, "b", closed_form_);
  b.trouble = "no room";
  changes_.want_plan_in_force("b");
  EXPECT_THAT(changes_.ready(kNow), ElementsAre(2));
  EXPECT_EQ(b.wanted, Wanted::kPlanInForce);
  EXPECT_EQ(b.trouble, "") << "of an attempt before";
  changes_.want_new_layouts();
  EXPECT_THAT(changes_.ready(kNow), ElementsAre(1, 2));
  EXPECT_EQ(b.wanted, Wanted::kPlanInForce) << "implies a new layout";
}

TEST_F(PlanChangesTest, AJobIsReadyWhenItCanChange) {
  run(1, "a", closed_form_).stage = JobStage::kLeaving;
  JobRecord next = job_record(2, {1}, "a");
  next.follows = 1;
  JobState& state = jobs_.add(next);
  state.stage = JobStage::kRunning;
  changes_.want_plan_in_force("");
  for (std::uint32_t rank = 0; rank < 2; ++rank) jobs_.take_place(20 + rank, 2, rank, "");
  jobs_.find(1)->stage = JobStage::kOver;
  EXPECT_THAT(changes_.ready(kNow), IsEmpty()) << "its ranks do not listen";
  for (const Ticket ticket : {20, 21}) jobs_.listen(ticket);
  jobs_.find(1)->stage = JobStage::kLeaving;
  EXPECT_THAT(changes_.ready(kNow), IsEmpty()) << "ranks have the version before";
  jobs_.find(1)->stage = JobStage::kOver;
  EXPECT_THAT(changes_.ready(kNow), ElementsAre(2));
  state.next = 3;
  EXPECT_THAT(changes_.ready(kNow), IsEmpty()) << "it is changing";
}

TEST_F(PlanChangesTest, NewMembersAreUsedWhenNoneHasChangedForAWhile) {
  changes_.members_changed(kNow);
  EXPECT_EQ(changes_.next_deadline(), kForever) << "there are no jobs";
  run(1, "a", closed_form_);
  changes_.members_changed(kNow);
  changes_.members_changed(kNow + kSecond);
  EXPECT_EQ(changes_.next_deadline(), kNow + kSecond + kCalm);
  EXPECT_THAT(changes_.ready(kNow + kCalm), IsEmpty());
  EXPECT_THAT(changes_.ready(kNow + kSecond + kCalm), ElementsAre(1));
  EXPECT_EQ(changes_.next_deadline(), kForever);
}

TEST_F(PlanChangesTest, JobsDoNotChangeForNewMembersWhileAPlanIsMade) {
  run(1, "a", closed_form_);
  changes_.members_changed(kNow);
  changes_.await_plan(true);
  EXPECT_EQ(changes_.next_deadline(), kForever);
  EXPECT_THAT(changes_.ready(kNow + kCalm), IsEmpty());
  changes_.want_new_layouts();
  EXPECT_THAT(changes_.ready(kNow + kCalm), ElementsAre(1)) << "a drain does not wait";
  jobs_.find(1)->wanted = Wanted::kNothing;
  changes_.await_plan(false);
  EXPECT_EQ(changes_.next_deadline(), kNow + kCalm);
  EXPECT_THAT(changes_.ready(kNow + kCalm), ElementsAre(1));
}

TEST_F(PlanChangesTest, JobsUseANewPlanAtOnceUnlessMembersHaveChanged) {
  changes_.plan_made(kNow);
  EXPECT_EQ(changes_.next_deadline(), kForever) << "there are no jobs";
  run(1, "a", closed_form_);
  changes_.plan_made(kNow);
  EXPECT_THAT(changes_.ready(kNow), ElementsAre(1));
  changes_.members_changed(kNow);
  changes_.plan_made(kNow);
  EXPECT_EQ(changes_.next_deadline(), kNow + kCalm);
}

TEST_F(PlanChangesTest, NewMembersChangeOnlyJobsOfThePlanInForce) {
  ASSERT_TRUE(plans_.set("b", stars()).ok());
  ASSERT_TRUE(plans_.set("c", stars()).ok());
  run(1, "a", closed_form_);
  run(2, "b", plans_.find("b"));
  run(3, "c", closed_form_);  // the plan was set after it had formed
  run(4, "d", nullptr);       // not yet placed
  changes_.members_changed(kNow, 0);
  EXPECT_THAT(changes_.ready(kNow), ElementsAre(1, 2));
  EXPECT_EQ(jobs_.find(2)->wanted, Wanted::kOwnPlan);
}

}  // namespace
}  // namespace tally::control
