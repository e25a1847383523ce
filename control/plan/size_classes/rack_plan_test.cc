#include "control/plan/size_classes/rack_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/lp/lp.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/load.h"

namespace tally::plan {
namespace {

// Racks of machines with NICs of 1 GB/s below links of `link`.
MachineFile file_of(std::size_t racks, std::size_t machines, double link) {
  MachineFile file;
  for (std::size_t r = 0; r < racks; ++r) {
    file.racks.push_back({fmt::format("r{}", r), "", link, link});
    for (std::size_t i = 0; i < machines; ++i) {
      file.machines.push_back({.name = fmt::format("m{}-{}", r, i),
                               .in = 1e9,
                               .out = 1e9,
                               .rack = file.racks.back().name});
    }
  }
  return file;
}

TEST(RackPlan, SumsWithinRacksFirst) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  const auto plan = plan_for_racks(file_of(2, 4, 1e9));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->epoch, 0U);
  Routes routes(plan->network);
  const auto& classes = plan->domains[0].classes;
  ASSERT_GE(classes.size(), 2U);
  EXPECT_NEAR(evaluate(routes, classes.back()).tau * 1e9, 1.75, 0.06);
  EXPECT_GT(evaluate(routes, classes.front()).tau * 1e9, 3.9);
}

TEST(RackPlan, TheSameFileHasTheSamePlan) {
  const auto file = file_of(3, 3, 1.2e9);
  const auto one = plan_for_racks(file), other = plan_for_racks(file);
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(write_plan(*one), write_plan(*other));
}

TEST(RackPlan, AnErrorNamesWhatIsMissing) {
  auto file = file_of(2, 1, 1e9);
  file.machines[1].role = Role::kHelper;
  const auto plan = plan_for_racks(file);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("cluster.role"), std::string::npos);
  file.machines[1].in = 0;
  EXPECT_NE(plan_for_racks(file).error().message.find("its speed is not known"), std::string::npos);
}

}  // namespace
}  // namespace tally::plan
