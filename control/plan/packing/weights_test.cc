// Plans without an LP library.
#include <gtest/gtest.h>

#include <random>

#include "base/lp/lp.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/packed_planner.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

PackingOptions with(Solver solver) {
  PackingOptions options;
  options.use_closed_form = false;
  options.solver = solver;
  return options;
}

TEST(PackingByWeights, ComesNearToTheOptimum) {
  const struct {
    Network network;
    double tau;
  } kCases[] = {{star_network(equal_machines(8, 4, 1e3)), 1.2727e-3},
                {rack_network(2, 4, 2, 1e3, 2e3), 1.2857e-3},
                {rack_network(2, 4, 0, 1e3, 5e2), 2e-3},
                {rack_network(8, 8, 2, 1e3, 2e3), 1.6136e-3}};
  for (const auto& [network, tau] : kCases) {
    PackingReport report;
    const auto plan = plan_packed(network, workers_of(network), with(Solver::kWeights), &report);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->method, "tpp-mwu");
    EXPECT_TRUE(validate(*plan, Limits{}).ok());
    EXPECT_LE(report.lower_bound, tau * (1 + 4e-5));
    EXPECT_GE(report.lower_bound, tau * 0.995);
    EXPECT_LE(report.any_tree, tau * 1.005);
    EXPECT_LE(report.plan, tau * 1.05);
  }
}

TEST(PackingByWeights, AgreesWithLinearPrograms) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  std::mt19937_64 random(301);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, trial % 2 == 0);
    PackingReport exact, near;
    const auto best =
        plan_packed(network, workers_of(network), with(Solver::kLinearProgram), &exact);
    const auto plan = plan_packed(network, workers_of(network), with(Solver::kWeights), &near);
    ASSERT_TRUE(best.ok() && plan.ok());
    EXPECT_LE(near.lower_bound, exact.any_tree * (1 + 1e-6));
    EXPECT_GE(near.lower_bound, exact.lower_bound * 0.98);
    EXPECT_GE(near.any_tree, exact.lower_bound * (1 - 1e-6));
    EXPECT_LE(near.any_tree, exact.any_tree * 1.02);
  }
}

}  // namespace
}  // namespace tally::plan
