#include "control/coordinator/layout/closed_form.h"

#include <gtest/gtest.h>

#include "control/plan/json/plan_json.h"
#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"

namespace tally::control {
namespace {

Members even_members(std::uint32_t workers, std::uint32_t helpers, std::uint64_t speed) {
  Members all;
  for (std::uint32_t i = 0; i < workers + helpers; ++i) {
    Member& member = all[i + 1];
    member.name = member.host = "m" + std::to_string(i);
    member.role = i < workers ? Role::kWorker : Role::kHelper;
    member.shards = 2;
    member.speed = speed;
  }
  return all;
}

double tau(const plan::Plan& plan) {
  plan::Routes routes(plan.network);
  return plan::evaluate(routes, plan.domains[0].classes.back()).tau;
}

// 2 n (n - 1) / (n^2 + k n - 2 k), times one byte at the NIC's speed.
TEST(ClosedForm, IsAValidPlanWithTheTimeOfThePaper) {
  const plan::Plan plan = closed_form_plan(even_members(8, 4, 1'000'000));
  EXPECT_TRUE(plan::validate(plan, {}).ok());
  EXPECT_NEAR(tau(plan) * 1e6, 1.2727, 1e-3);
  EXPECT_TRUE(plan::validate(*plan::read_plan(plan::write_plan(plan)), {}).ok());
}

TEST(ClosedForm, SetAsAPlanItPlacesJobsTheSameWay) {
  const Members all = even_members(3, 2, 0);
  const MachinePlan file{closed_form_plan(all), 0};
  ASSERT_TRUE(check_layout(file, all).ok());
  const Layout by_file = lay_out(file, all, {{0}, {1}, {2}}, 1 << 18);
  const Layout closed = star_layout(all, 3, 1 << 18);
  EXPECT_EQ(by_file.plan, closed.plan);
  ASSERT_EQ(by_file.nodes.size(), closed.nodes.size());
  for (std::size_t i = 0; i < closed.nodes.size(); ++i) {
    EXPECT_EQ(by_file.nodes[i].trees, closed.nodes[i].trees);
    EXPECT_EQ(by_file.nodes[i].node, closed.nodes[i].node);
  }
}

TEST(ClosedForm, ShowsTheNicsThatAreUp) {
  Members all = even_members(2, 1, 0);
  for (auto& [node, member] : all) {
    member.rails = {{.address = "10.0.0.1", .speed = 4'000'000, .shards = 1},
                    {.address = "10.0.1.1", .speed = 1'000'000, .shards = 1}};
  }
  EXPECT_EQ(closed_form_plan(all).network.vertices[0].in, 5e6);
  for (auto& [node, member] : all) member.rails[0].up = false;
  EXPECT_EQ(closed_form_plan(all).network.vertices[0].in, 1e6);
}

TEST(ClosedForm, WithoutWorkerMembersTheRanksAreOneMachine) {
  const plan::Plan plan = closed_form_plan(even_members(0, 3, 0));
  EXPECT_TRUE(plan::validate(plan, {}).ok());
  EXPECT_EQ(plan.domains[0].workers.size(), 1U);
  EXPECT_EQ(plan.network.vertices[3].name, "workers");
  EXPECT_NEAR(tau(plan), 1 / 3e9, 1e-13);
}

}  // namespace
}  // namespace tally::control
