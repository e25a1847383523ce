// Packings of small random networks against the best shares of all trees that there are.
#include <gtest/gtest.h>

#include <random>

#include "base/lp/lp.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/packed_planner.h"
#include "tests/support/control/all_packings.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

class AllTrees : public testing::Test {
 protected:
  void SetUp() override {
    if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

// The plan's optimum, its bound, and that its certificate stands.
void expect_best(const Network& network, const PackingOptions& options, double best, double bound) {
  PackingReport report;
  const auto plan = plan_packed(network, workers_of(network), options, &report);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(report.is_exact);
  EXPECT_LE(report.any_tree, best * (1 + 1.1e-3));
  EXPECT_GE(report.any_tree, best * (1 - 1e-6));
  EXPECT_LE(report.lower_bound, bound * (1 + 1e-6));
  EXPECT_GE(report.lower_bound, bound * (1 - 1.1e-3));
  EXPECT_LE(report.plan, best * 1.0225);
  EXPECT_TRUE(validate(*plan, {}).ok());
}

TEST_F(AllTrees, AreNotBetterInNetworksThatAreTheSameBothWays) {
  std::mt19937_64 random(101);
  PackingOptions options;
  options.use_closed_form = false;
  for (int trial = 0; trial < 1000 && !HasFailure(); ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, true);
    // Only the edges of a tree count, so the trees of one root are all trees.
    const double best = best_of_all_packings(network, workers_of(network), false);
    ASSERT_GT(best, 0);
    expect_best(network, options, best, best);
  }
}

TEST_F(AllTrees, AreNotBetterInNetworksThatDifferByDirection) {
  std::mt19937_64 random(102);
  PackingOptions same_way, any_way;
  same_way.use_closed_form = any_way.use_closed_form = false;
  any_way.way_down = WayDown::kAnyWay;
  for (int trial = 0; trial < 200 && !HasFailure(); ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, false);
    const auto workers = workers_of(network);
    const double any = best_of_all_packings(network, workers, true);
    const double same = best_of_all_packings(network, workers, false);
    ASSERT_GT(any, 0);
    EXPECT_GE(same, any * (1 - 1e-6));
    expect_best(network, any_way, any, any);
    PackingReport report;
    const auto plan = plan_packed(network, workers, same_way, &report);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_NEAR(report.served, same, 2e-3 * same);
    EXPECT_NEAR(report.any_tree, any, 2e-3 * any);
    EXPECT_LE(report.lower_bound, any * (1 + 1e-6));
    for (const Tree& tree : plan->domains[0].classes[0].trees) EXPECT_TRUE(tree.down.empty());
  }
}

// In a network that is the same both ways, results that go back another way do not help (T1 of the
// proof in docs/planning.md).
TEST_F(AllTrees, ResultsNeedNoOtherWayBackWhereBothWaysAreAlike) {
  std::mt19937_64 random(103);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, true);
    const double same = best_of_all_packings(network, workers_of(network), false);
    EXPECT_NEAR(best_of_all_packings(network, workers_of(network), true), same, 1e-6 * same);
  }
}

}  // namespace
}  // namespace tally::plan
