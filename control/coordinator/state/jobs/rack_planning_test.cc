#include "control/coordinator/state/jobs/rack_planning.h"

#include <gtest/gtest.h>

#include "tests/support/control/racked_members.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

class RackPlanningTest : public ::testing::Test {
 protected:
  NodeId join(const char* name, const char* rack) { return *members_.join(racked(name, rack), 0); }
  // The number of the request, 0 for none.
  std::uint64_t request() {
    const auto asked = racks_.take_request();
    return asked ? asked->number : 0;
  }

  MemoryStore store_;
  Plans plans_{store_};
  DepartedMembers departed_{store_, plans_};
  ClusterMembers members_{store_, departed_};
  RackPlanning racks_{members_, true};
};

TEST_F(RackPlanningTest, MembersWithoutRacksNeedNoPlan) {
  for (const char* name : {"a", "b"}) ASSERT_TRUE(members_.join(member(name), 0).ok());
  EXPECT_FALSE(racks_.take_request().has_value());
  EXPECT_FALSE(racks_.is_due());
}

TEST_F(RackPlanningTest, ASingleMemberNeedsNoPlan) {
  join("a", "r1");
  EXPECT_EQ(request(), 0U);
  join("b", "r2");
  EXPECT_EQ(request(), 1U);
}

TEST_F(RackPlanningTest, ThePlanIsForTheMembersOfTheRequest) {
  join("a", "r1");
  join("b", "r2");
  const auto asked = racks_.take_request();
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->machines.machines.size(), 2U);
  EXPECT_TRUE(racks_.is_due());
  EXPECT_EQ(racks_.plan(), nullptr) << "stars meanwhile";
  EXPECT_EQ(request(), 0U) << "one at a time";
  EXPECT_TRUE(racks_.made(asked->number, deep().file));
  ASSERT_NE(racks_.plan(), nullptr);
  EXPECT_EQ(racks_.plan()->source, PlanSource::kRacks);
  EXPECT_TRUE(racks_.needs_hosts());
  EXPECT_FALSE(racks_.is_due());
  EXPECT_EQ(request(), 0U);
}

TEST_F(RackPlanningTest, MembersThatChangeMeanwhileNeedAnotherPlan) {
  join("a", "r1");
  const NodeId b = join("b", "r2");
  const std::uint64_t first = request();
  join("c", "r2");
  EXPECT_EQ(request(), 0U) << "the first is still being made";
  EXPECT_FALSE(racks_.made(first, deep().file)) << "out of date";
  EXPECT_EQ(racks_.plan(), nullptr);
  const std::uint64_t second = request();
  EXPECT_GT(second, first);
  EXPECT_TRUE(racks_.made(second, deep().file));
  members_.leave(b);
  EXPECT_EQ(racks_.plan(), nullptr);
  EXPECT_NE(request(), 0U);
}

TEST_F(RackPlanningTest, DrainsRailsSpeedsAndSilenceCount) {
  const NodeId a = join("a", "r1");
  join("b", "r2");
  join("c", "r2");
  ASSERT_TRUE(racks_.made(request(), deep().file));
  const auto plan = racks_.plan();
  members_.set_silent(a, true);
  EXPECT_NE(request(), 0U);
  members_.set_silent(a, false);
  EXPECT_EQ(request(), 0U);
  EXPECT_EQ(racks_.plan(), plan) << "as before";
  ASSERT_TRUE(members_.set_speeds({{"a", {5'000'000, 0, {}}}}).ok());
  EXPECT_EQ(request(), 0U) << "the plan of the silent node is still being made";
  EXPECT_FALSE(racks_.made(2, deep().file));
  EXPECT_NE(request(), 0U) << "of other speeds";
}

TEST_F(RackPlanningTest, WithoutAPlanStarsStayUntilMembersChange) {
  join("a", "r1");
  join("b", "r2");
  EXPECT_FALSE(racks_.made(request(), Error{Status::kRefused, "no"}));
  EXPECT_EQ(racks_.plan(), nullptr);
  EXPECT_FALSE(racks_.is_due());
  EXPECT_EQ(request(), 0U) << "it would fail again";
  join("c", "r2");
  EXPECT_TRUE(racks_.made(request(), stars().file));
  EXPECT_FALSE(racks_.needs_hosts()) << "stars do not depend on hosts";
}

TEST_F(RackPlanningTest, IsOffWhereNobodyMakesPlans) {
  RackPlanning off(members_, false);
  join("a", "r1");
  join("b", "r2");
  EXPECT_FALSE(off.take_request().has_value());
  EXPECT_FALSE(off.is_due());
}

}  // namespace
}  // namespace tally::control
