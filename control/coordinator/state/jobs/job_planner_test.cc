#include "control/coordinator/state/jobs/job_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/coordinator/state/jobs/assignment_of.h"
#include "tests/support/control/placed_jobs.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class JobPlannerTest : public ::testing::Test {
 protected:
  NodeId join(const char* name) { return *members_.join(member(name), 0); }
  JobRecord placed(const JobRecord& job) {
    auto made = planner_.place(job, hosts_);
    EXPECT_TRUE(made.ok());
    return made ? *made : JobRecord{};
  }

  MemoryStore store_;
  Plans plans_{store_};
  DepartedMembers departed_{store_, plans_};
  ClusterMembers members_{store_, departed_};
  RackPlanning racks_{members_, true};
  JobPlanner planner_{members_, departed_, plans_, racks_, store_, 1 << 18};
  std::vector<std::string> hosts_ = {"w0", "w1"};
};

TEST_F(JobPlannerTest, WithoutAPlanAJobHasStarsAtAllMembers) {
  join("a");
  join("b");
  const JobRecord job = placed(job_record(1, {}));
  ASSERT_THAT(job.nodes, SizeIs(2));
  EXPECT_NE(job.nodes[0].placement, job.nodes[1].placement);
  EXPECT_EQ(job.plan_epoch, 0U);
  EXPECT_EQ(job.made_by->source, PlanSource::kClosedForm);
  EXPECT_EQ(planner_.in_force("train")->source, PlanSource::kClosedForm);
}

TEST_F(JobPlannerTest, AnOperatorsPlanOverridesTheClosedForm) {
  for (const char* name : {"a", "b", "c"}) join(name);
  ASSERT_TRUE(plans_.set("train", deep()).ok());
  const JobRecord job = placed(job_record(1, {}));
  EXPECT_THAT(job.nodes, SizeIs(2));
  EXPECT_EQ(job.plan_epoch, 5U);
  EXPECT_EQ(job.made_by, plans_.find("train"));
  EXPECT_TRUE(planner_.needs_all_ranks("train"));
  EXPECT_FALSE(planner_.needs_all_ranks("other"));
  ASSERT_TRUE(plans_.set("train", stars()).ok());
  EXPECT_FALSE(planner_.needs_all_ranks("train")) << "stars do not depend on hosts";
  JobRecord small = job_record(2, {});
  small.ranks = 1;
  EXPECT_THAT(planner_.place(small, hosts_).error().message,
              HasSubstr("has 2 workers and the job 1 ranks"));
}

TEST_F(JobPlannerTest, ADrainedNodeHasNoTreesInTheNextVersion) {
  const NodeId a = join("a");
  join("b");
  const JobRecord job = placed(job_record(store_.next_epoch(), {}));
  ASSERT_TRUE(members_.drain("b", false).ok());
  const auto next = planner_.next_version(job, Wanted::kOwnPlan, hosts_, {});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->epoch, job.epoch + 1);
  EXPECT_EQ(next->follows, job.epoch);
  ASSERT_THAT(next->nodes, SizeIs(1));
  EXPECT_EQ(next->nodes[0].node, a);
}

TEST_F(JobPlannerTest, AnUnchangedLayoutNeedsNoNewVersion) {
  join("a");
  const JobRecord job = placed(job_record(store_.next_epoch(), {}));
  const auto same = planner_.next_version(job, Wanted::kPlanInForce, hosts_, {});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->epoch, job.epoch);
  EXPECT_EQ(same->follows, 0U);
}

TEST_F(JobPlannerTest, ANewLayoutOfItsOwnPlanIgnoresThePlanInForce) {
  for (const char* name : {"a", "b", "c"}) join(name);
  const JobRecord job = placed(job_record(store_.next_epoch(), {}));
  ASSERT_TRUE(plans_.set("", stars()).ok());
  EXPECT_EQ(planner_.next_version(job, Wanted::kOwnPlan, hosts_, {})->nodes.size(), 3U);
  EXPECT_EQ(planner_.next_version(job, Wanted::kPlanInForce, hosts_, {})->nodes.size(), 2U);
}

// In the plan, "a" has the parent "b".
TEST(AssignmentOfTest, HasTheAddressesAsTheNodeReachesThem) {
  JobRecord job = job_record(1, {1, 2});
  job.nodes[0].above = {{2, 1}};
  job.rate = 100;
  const JobAssignment inner = assignment_of(job, job.nodes[0]);
  EXPECT_EQ(inner.id, job.nodes[0].placement);
  EXPECT_EQ(inner.rate, 100U);
  EXPECT_EQ(inner.above.at(0), (RemoteShard{"b", "tcp:b:7733", "", 1, 2}));
  job.nodes[1].member.local = "unix:/b";
  EXPECT_EQ(assignment_of(job, job.nodes[0]).above.at(0).tcp, "tcp:b:7733") << "another machine";
  job.nodes[1].member.host = job.nodes[0].member.host;
  EXPECT_EQ(assignment_of(job, job.nodes[0]).above.at(0), (RemoteShard{"b", "", "unix:/b", 1, 2}));
}

}  // namespace
}  // namespace tally::control
