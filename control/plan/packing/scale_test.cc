// Networks of many machines: how near plans come to their bounds. Only alike racks make it quick.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string_view>

#include "base/lp/lp.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/packed_planner.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

class PackingScale : public testing::Test {
 protected:
  void SetUp() override {
    if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

void expect_near_bound(const Network& network, double most_above) {
  const auto plan = plan_packed(network, workers_of(network), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Certificate& certificate = *plan->domains[0].certificate;
  EXPECT_LE(certificate.tau, certificate.lower_bound * (1 + most_above));
  const auto& trees = plan->domains[0].classes[0].trees;
  EXPECT_LE(trees.size(), kServedTrees);
  for (const Tree& tree : trees) EXPECT_TRUE(tree.down.empty());
  EXPECT_TRUE(validate(*plan, Limits{}).ok());
}

TEST_F(PackingScale, EightRacks) {
  expect_near_bound(rack_network(8, 8, 2, 12.5e9, 25e9), 0.01);
}

TEST_F(PackingScale, SixteenRacks) {
  expect_near_bound(rack_network(16, 16, 2, 12.5e9, 50e9), 0.01);
}

TEST_F(PackingScale, SixtyFourRacks) {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  if (tier != nullptr && std::string_view(tier) == "fast") GTEST_SKIP() << "not in the tier fast";
  expect_near_bound(rack_network(64, 16, 2, 12.5e9, 50e9), 0.01);
}

TEST_F(PackingScale, PlansOfFewTreesLoseLittle) {
  const Network network = rack_network(8, 8, 2, 12.5e9, 25e9);
  for (const auto& [trees, most_above] :
       {std::pair(64, 0.015), {48, 0.018}, {32, 0.03}, {16, 0.12}}) {
    PackingOptions options;
    options.max_trees = static_cast<std::size_t>(trees);
    PackingReport report;
    const auto plan = plan_packed(network, workers_of(network), options, &report);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_LE(plan->domains[0].classes[0].trees.size(), options.max_trees);
    EXPECT_LE(report.plan, report.lower_bound * (1 + most_above)) << trees << " trees";
  }
}

// As `probe` measures them: each direction has a speed of its own, and sums are no limit.
TEST_F(PackingScale, MeasuredRacks) {
  std::mt19937_64 random(402);
  Network network = rack_network(8, 8, 2, 12.5e9, 25e9);
  const auto measured = [&random](double speed) {
    return speed * (0.98 + 0.04 * static_cast<double>(random() % 1000) / 1000);
  };
  for (Vertex& machine : network.vertices) {
    if (machine.role == Role::kSwitch) continue;
    machine.in = measured(machine.in);
    machine.out = measured(machine.out);
    machine.sum = 2e11;
  }
  for (Link& link : network.links) {
    const Vertex &from = network.vertices[link.from], &to = network.vertices[link.to];
    link.capacity = from.role != Role::kSwitch ? from.out
                    : to.role != Role::kSwitch ? to.in
                                               : measured(link.capacity);
  }
  expect_near_bound(network, 0.015);
}

// 16 helpers that all differ are too many to try all choices. The shape still shows a bound.
TEST_F(PackingScale, RacksOfMachinesWithUnevenNics) {
  std::mt19937_64 random(401);
  Network network = rack_network(8, 4, 2, 1, 15e9);
  for (std::size_t i = 0; i < network.links.size(); i += 2) {
    if (network.links[i].from >= network.machines()) continue;
    Vertex& one = network.vertices[network.links[i].from];
    one.in = one.out = 10e9 + static_cast<double>(random() % 5000) * 1e6;
    network.links[i].capacity = network.links[i + 1].capacity = one.in;
  }
  expect_near_bound(network, 0.04);
}

}  // namespace
}  // namespace tally::plan
