// Known optima: those of closed forms and of small networks.
#include "control/plan/packing/packed_planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/lp/lp.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

// The optimum that column generation finds, and its bound. `tau` has five digits. Plans round
// weights, so their time is a little above.
void expect_optimum(const Network& network, double tau, PackingOptions options = {}) {
  if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  options.use_closed_form = false;
  options.gap = 1e-4;
  options.level_slack = 0;
  PackingReport report;
  const auto plan = plan_packed(network, workers_of(network), options, &report);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(report.is_exact);
  EXPECT_NEAR(report.any_tree, tau, 1e-3 * tau);
  EXPECT_NEAR(report.lower_bound, tau, 1e-3 * tau);
  EXPECT_LE(report.lower_bound, tau * (1 + 4e-5));
  EXPECT_NEAR(report.plan, tau, 5e-3 * tau);
  EXPECT_EQ(plan->method, "tpp-cg");
  EXPECT_TRUE(validate(*plan, Limits{}).ok());
}

TEST(PackedPlanner, FindsTheTimesOfBytePs) {
  const double times[] = {1.75, 1.6, 1.4737, 1.3659, 1.2727, 1.1915, 1.12, 1.0566, 1.0};
  for (std::size_t helpers = 0; helpers <= 8; ++helpers) {
    SCOPED_TRACE(helpers);
    expect_optimum(star_network(equal_machines(8, helpers, 1e3)), times[helpers] / 1e3);
  }
  expect_optimum(star_network(equal_machines(3, 1, 1e3)), 1.2e-3);
  expect_optimum(star_network(equal_machines(3, 2, 1e3)), 1.0909e-3);
  expect_optimum(star_network(equal_machines(4, 1, 1e3)), 1.3333e-3);
  expect_optimum(star_network(equal_machines(4, 2, 1e3)), 1.2e-3);
  expect_optimum(star_network(equal_machines(5, 2, 1e3)), 1.2903e-3);
}

TEST(PackedPlanner, FindsTheFormulaOfBytePsForEveryFewMachines) {
  for (std::size_t n = 2; n <= 6; ++n) {
    for (std::size_t k = 0; k <= n + 1; ++k) {
      SCOPED_TRACE(testing::Message() << n << " workers, " << k << " helpers");
      const auto machines = equal_machines(n, k, 1e3);
      expect_optimum(star_network(machines), star_shares(machines).tau);
    }
  }
}

TEST(PackedPlanner, SumsWithinRacksFirst) {
  // Racks of 4 workers with NICs of 1: the speed of uplinks, helpers in each rack, the time.
  const struct {
    double uplink;
    std::size_t helpers;
    double tau;
  } kTimes[] = {{2, 0, 1.75}, {2, 2, 1.2857}, {1, 1, 1.5}, {1, 4, 1.0909},
                {0.5, 0, 2},  {0.5, 1, 2},    {0.5, 4, 2}};
  for (const auto& [uplink, helpers, tau] : kTimes) {
    SCOPED_TRACE(testing::Message() << uplink << ", " << helpers);
    expect_optimum(rack_network(2, 4, helpers, 1e3, uplink * 1e3), tau / 1e3);
  }
}

TEST(PackedPlanner, ReachesTheBoundOfEightRacks) {
  expect_optimum(rack_network(8, 8, 2, 1e3, 2e3), 1.6136e-3);
}

TEST(PackedPlanner, FindsTheFormulaOfRacksWithoutHelpers) {
  for (const auto& [racks, workers, uplink] :
       std::vector<std::tuple<std::size_t, std::size_t, double>>{
           {2, 4, 1}, {3, 2, 0.5}, {4, 3, 2}, {2, 5, 0.3}, {3, 4, 10}}) {
    SCOPED_TRACE(testing::Message() << racks << " racks of " << workers << ", " << uplink);
    const double r = static_cast<double>(racks), n = r * static_cast<double>(workers);
    expect_optimum(rack_network(racks, workers, 0, 1e3, uplink * 1e3),
                   std::max(2 * (n - 1) / n, 2 * (r - 1) / (r * uplink)) / 1e3);
  }
}

TEST(PackedPlanner, FindsTheTimesOfSmallOverlays) {
  Network triangle = overlay_network(3, 0);
  for (VertexId id = 0; id < 3; ++id) join(triangle, id, (id + 1) % 3, 1e3);
  expect_optimum(triangle, 2.0 / 3e3);

  Network path = overlay_network(3, 0);
  join(path, 0, 1, 1e3);
  join(path, 1, 2, 2e3);
  expect_optimum(path, 1e-3);

  Network ring = overlay_network(5, 0), all = ring;
  for (VertexId id = 0; id < 5; ++id) join(ring, id, (id + 1) % 5, 1e3);
  expect_optimum(ring, 4.0 / 5e3);
  for (VertexId a = 0; a < 5; ++a) {
    for (VertexId b = 0; b < a; ++b) join(all, a, b, 1e3);
  }
  expect_optimum(all, 2.0 / 5e3);

  Network slow = overlay_network(3, 0), hub = overlay_network(3, 1);
  for (VertexId id = 0; id < 3; ++id) {
    join(slow, id, (id + 1) % 3, 5e2);
    join(hub, id, (id + 1) % 3, 5e2);
    join(hub, id, 3, 1e3);
  }
  expect_optimum(slow, 4.0 / 3e3);
  expect_optimum(hub, 4.0 / 7e3);
}

// The NVLinks of a DGX-1V: 24 links between 8 GPUs (the times are those of Blink, MLSys '20).
TEST(PackedPlanner, FindsTheTimeOfTheLinksOfEightGpus) {
  Network network = overlay_network(8, 0);
  const std::tuple<VertexId, VertexId, double> kLinks[] = {
      {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
      {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (const auto& [a, b, links] : kLinks) join(network, a, b, links * 1e3);
  expect_optimum(network, 7.0 / 24e3);
}

TEST(PackedPlanner, UsesEachDirectionOfUnevenNics) {
  auto machines = equal_machines(4, 0, 1e3);
  for (std::size_t id = 0; id < 4; ++id) {
    machines[id].in = id == 0 ? 2e3 : 1e3;
    machines[id].out = id == 0 ? 1e3 : 2e3;
  }
  PackingOptions options;
  options.way_down = WayDown::kAnyWay;
  expect_optimum(star_network(machines), 1.2e-3, options);

  machines = equal_machines(4, 1, 1e3);
  for (Vertex& one : machines) one.in = 2e3;
  machines[4].in = 1e3;
  machines[4].out = 4e3;
  expect_optimum(star_network(machines), 1e-3, options);
}

TEST(PackedPlanner, DividesSlowSumsOverDeeperTrees) {
  auto machines = equal_machines(4, 2, 1e3);
  machines[4].sum = machines[5].sum = 750;
  PackingOptions options;
  options.way_down = WayDown::kAnyWay;
  expect_optimum(star_network(machines), 1.2e-3, options);
}

TEST(PackedPlanner, TakesTheClosedFormOfFullBisection) {
  const auto machines = equal_machines(8, 4, 1e9);
  const Network network = star_network(machines);
  PackingReport report;
  const auto plan = plan_packed(network, workers_of(network), {}, &report);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->method, "star");
  const Certificate& certificate = *plan->domains[0].certificate;
  EXPECT_NEAR(certificate.lower_bound, star_shares(machines).tau, 1e-15);
  EXPECT_LE(certificate.tau, certificate.lower_bound * 1.001);
  EXPECT_FALSE(certificate.dual.empty());

  auto uneven = machines;
  uneven[3].in = uneven[3].out = 1e7;  // its NIC alone limits
  const auto slow = plan_packed(star_network(uneven), workers_of(network), {}, &report);
  ASSERT_TRUE(slow.ok()) << slow.error().message;
  EXPECT_EQ(slow->method, "star");
  EXPECT_NEAR(report.lower_bound, 1e-7, 1e-16);
}

// Stars bring 4 bytes over a rack's link each way for each byte of the operation.
TEST(PackedPlanner, TakesTheClosedFormWhereLinksBetweenRacksDoNotLimit) {
  const Network narrow = rack_network(2, 4, 2, 1e9, 3.1e9),
                wide = rack_network(2, 4, 2, 1e9, 3.2e9);
  const auto method_of = [](const Network& network) {
    return plan_packed(network, workers_of(network), {})->method;
  };
  EXPECT_NE(method_of(narrow), "star");
  EXPECT_EQ(method_of(wide), "star");
  const auto plan = plan_packed(wide, workers_of(wide), {});
  const Certificate& certificate = *plan->domains[0].certificate;
  EXPECT_NEAR(certificate.lower_bound, 14 / 11e9, 1e-15);
  EXPECT_LE(certificate.tau, certificate.lower_bound * 1.001);
}

// It tries trees of several levels too, which no later step may choose.
TEST(PackedPlanner, FindsTheBestStars) {
  const Network network = rack_network(2, 4, 2, 1e9, 6e9);
  PackingOptions options;
  options.use_closed_form = false;
  options.max_height = 1;
  PackingReport report;
  const auto plan = plan_packed(network, workers_of(network), options, &report);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NEAR(report.served, 14 / 11e9, 1e-12);
  EXPECT_LE(report.plan, 1.001 * 14 / 11e9);
}

TEST(PackedPlanner, OneWorkerSendsNothing) {
  const Network network = rack_network(2, 1, 1, 1e3, 1e3);
  const auto plan = plan_packed(network, std::vector<VertexId>{2}, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->domains[0].certificate->tau, 0);
}

TEST(PackedPlanner, RefusesWhatHasNoPlan) {
  Network network = rack_network(2, 2, 0, 1e3, 1e3);
  const auto message_of = [&](const std::vector<VertexId>& workers) {
    const auto plan = plan_packed(network, workers, {});
    return plan.ok() ? "" : plan.error().message;
  };
  EXPECT_EQ(message_of({}), "no worker: a plan needs at least one");
  EXPECT_EQ(message_of({0, 9}), "worker 9: must be the id of a node whose role is worker");
  network.links.resize(network.links.size() - 2);  // the last rack's uplink
  EXPECT_NE(message_of({0, 1, 2, 3}).find("no tree joins the 4 workers"), std::string::npos);
  EXPECT_EQ(message_of({0, 1}), "");
  network.links[0].capacity = -1;
  EXPECT_NE(message_of({0, 1}).find("links[0]"), std::string::npos);
}

}  // namespace
}  // namespace tally::plan
