// Advice for networks whose times are known before and after the change.
#include "control/plan/advice/advice.h"

#include <gtest/gtest.h>

#include "base/lp/lp.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

// Advice for all workers of the network. Plans round weights, so their times are a little above the
// optimum.
Advice advice_for(const Network& network, const AdviceOptions& options = {}) {
  auto advice = advise(network, workers_of(network), options);
  EXPECT_TRUE(advice.ok()) << (advice.ok() ? "" : advice.error().message);
  return advice.ok() ? std::move(*advice) : Advice{};
}

void expect_time(double tau, double expected) {
  EXPECT_NEAR(tau, expected, 2e-3 * expected);
}

TEST(Advice, OneMoreHelperGivesTheGainOfTheClosedForm) {
  const double times[] = {1.75, 1.6, 1.4737, 1.3659, 1.2727, 1.1915, 1.12, 1.0566, 1.0};
  for (std::size_t helpers = 0; helpers < 8; ++helpers) {
    SCOPED_TRACE(helpers);
    const Advice advice = advice_for(star_network(equal_machines(8, helpers, 1e3)));
    expect_time(advice.now.tau, times[helpers] / 1e3);
    ASSERT_EQ(advice.helpers.size(), 1u);
    EXPECT_EQ(advice.helper.in, 1e3);
    expect_time(advice.helpers[0].tau, times[helpers + 1] / 1e3);
  }
}

TEST(Advice, AHelperHasTheSpeedsThatAreAskedFor) {
  AdviceOptions options;
  options.helper = machine(Role::kHelper, 250);
  const Advice advice = advice_for(star_network(equal_machines(8, 0, 1e3)), options);
  auto machines = equal_machines(8, 0, 1e3);
  machines.push_back(*options.helper);
  expect_time(advice.helpers.at(0).tau, star_shares(machines).tau);
}

TEST(Advice, FasterNicsGiveTheGainOfTheClosedForm) {
  // Without helpers an operation takes 2 (n - 1) / (sum of NICs).
  const Advice advice = advice_for(star_network(equal_machines(8, 0, 1e3)));
  ASSERT_EQ(advice.upgrades.size(), 2u);
  const UpgradeAdvice& all = advice.upgrades[0];
  EXPECT_EQ(all.upgrade.kind, UpgradeKind::kNics);
  EXPECT_EQ(all.upgrade.count, 8u);
  EXPECT_EQ(all.factor, 2);
  expect_time(all.tau, 14.0 / 16e3);
  const UpgradeAdvice& one = advice.upgrades[1];
  EXPECT_EQ(one.upgrade.count, 1u);
  EXPECT_EQ(one.upgrade.alike, 8u);
  EXPECT_EQ(one.factor, 2);
  expect_time(one.tau, 14.0 / 9e3);
}

TEST(Advice, NamesTheOneSlowMachine) {
  auto machines = equal_machines(4, 0, 1e3);
  machines[2].in = machines[2].out = 100;
  AdviceOptions options;
  options.most_factor = 4;
  const Advice advice = advice_for(star_network(machines), options);
  expect_time(advice.now.tau, 1 / 100.0);
  ASSERT_EQ(advice.upgrades.size(), 1u);
  EXPECT_EQ(advice.upgrades[0].upgrade.machines, std::vector<VertexId>{2});
  EXPECT_EQ(advice.upgrades[0].factor, 4);
  expect_time(advice.upgrades[0].tau, 1 / 400.0);
  EXPECT_EQ(advice.of_no_use, 2u) << "the others, all or one";
  expect_time(advice.helpers.at(0).tau, 1 / 100.0);
}

TEST(Advice, NamesTheRateBeyondWhichLinksOfRacksDoNotHelp) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  // Two racks of four workers with NICs of 1: 1 / uplink, but at least 1.75. Both uplinks must be
  // faster, and they need 1.13 times their speed to be within 1% of 1.75.
  const Advice advice = advice_for(rack_network(2, 4, 0, 1e3, 500));
  expect_time(advice.now.tau, 2e-3);
  expect_time(advice.now.lower_bound, 2e-3);
  ASSERT_EQ(advice.upgrades.size(), 1u);
  const UpgradeAdvice& links = advice.upgrades[0];
  EXPECT_EQ(links.upgrade.kind, UpgradeKind::kLinks);
  EXPECT_EQ(links.upgrade.count, 2u);
  EXPECT_EQ(links.factor, 1.25);
  expect_time(links.tau, 1.75e-3);
  ASSERT_EQ(advice.helpers.size(), 2u) << "in a rack, and above the racks";
  expect_time(advice.helpers[0].tau, 2e-3);
  expect_time(advice.helpers[1].tau, 2e-3);
}

TEST(Advice, FindsHelpersOfUseInRacks) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  // Between the times with one helper in each rack (1.5), and three on full bisection.
  const Advice advice = advice_for(rack_network(2, 4, 1, 1e3, 1e3));
  expect_time(advice.now.tau, 1.5e-3);
  ASSERT_EQ(advice.helpers.size(), 2u);
  EXPECT_LE(advice.helpers[0].tau, advice.helpers[1].tau);
  for (const HelperAdvice& one : advice.helpers) {
    EXPECT_EQ(one.place.alike, one.place.at == 12 ? 1u : 2u);
    EXPECT_LT(one.tau, 1.48e-3);
    EXPECT_GE(one.tau, 1.3659e-3);
  }
}

TEST(Advice, NamesSlowSums) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  // Each of two workers sums half at 250. A helper that sums as slowly gets two inputs of each
  // byte.
  auto machines = equal_machines(2, 0, 1e3);
  for (Vertex& one : machines) one.sum = 250;
  const Advice advice = advice_for(star_network(machines));
  expect_time(advice.now.tau, 2e-3);
  ASSERT_EQ(advice.upgrades.size(), 2u);
  EXPECT_EQ(advice.upgrades[0].upgrade.kind, UpgradeKind::kSums);
  EXPECT_EQ(advice.upgrades[0].upgrade.count, 2u);
  expect_time(advice.upgrades[0].tau, 1e-3);
  EXPECT_EQ(advice.upgrades[1].upgrade.count, 1u);
  expect_time(advice.upgrades[1].tau, 1 / 750.0);
  ASSERT_EQ(advice.helpers.size(), 1u);
  EXPECT_EQ(advice.helper.sum, 250);
  expect_time(advice.helpers[0].tau, 1.6e-3);
}

TEST(Advice, TriesNoMorePlacesThanAllowed) {
  AdviceOptions options;
  options.most_places = 1;
  const Advice advice = advice_for(star_network(equal_machines(8, 0, 1e3)), options);
  EXPECT_EQ(advice.helpers.size(), 1u);
  EXPECT_EQ(advice.upgrades.size(), 1u);
  EXPECT_EQ(advice.not_tried, 1u);
}

TEST(Advice, IsNoneForOneWorker) {
  const Advice advice = advice_for(star_network(equal_machines(1, 2, 1e3)));
  EXPECT_EQ(advice.now.tau, 0);
  EXPECT_TRUE(advice.helpers.empty());
  EXPECT_TRUE(advice.upgrades.empty());
}

TEST(Advice, HasTheErrorsOfThePlanner) {
  const Network network = star_network(equal_machines(2, 0, 1e3));
  const auto advice = advise(network, {}, {});
  ASSERT_FALSE(advice.ok());
  EXPECT_EQ(advice.error().message, "no worker: a plan needs at least one");
}

}  // namespace
}  // namespace tally::plan
