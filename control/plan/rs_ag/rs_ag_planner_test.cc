#include "control/plan/rs_ag/rs_ag_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/lp/lp.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/json/served.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

std::vector<VertexId> first(std::size_t count) {
  std::vector<VertexId> workers(count);
  std::iota(workers.begin(), workers.end(), VertexId{0});
  return workers;
}

// The same network in GB per second.
Network in_gigabytes(Network network) {
  for (Vertex& vertex : network.vertices) {
    vertex.in *= 1e9;
    vertex.out *= 1e9;
  }
  for (Link& link : network.links) link.capacity *= 1e9;
  return network;
}

class RsAgPlan : public testing::Test {
 protected:
  void SetUp() override {
    if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

// The root of each tree carries what the workers before it leave, and each worker the same.
void expect_shares_of_owners(const Domain& domain) {
  std::vector<std::uint32_t> by_worker(domain.workers.size());
  std::size_t last = 0;
  for (const Tree& tree : domain.classes.at(0).trees) {
    const auto shape = Shape::of(tree.up, "up");
    ASSERT_TRUE(shape.ok());
    const auto at = static_cast<std::size_t>(
        std::find(domain.workers.begin(), domain.workers.end(), shape->root()) -
        domain.workers.begin());
    EXPECT_GE(at, last) << "roots in the order of workers";
    last = at;
    by_worker.at(at) += tree.weight;
  }
  for (const std::uint32_t weight : by_worker) {
    EXPECT_NEAR(weight, static_cast<double>(kWeightUnit) / static_cast<double>(by_worker.size()),
                1);
  }
}

TEST_F(RsAgPlan, OfFullBisectionHasAStarAtEachWorker) {
  const Network network = star_network(equal_machines(5, 2, 1e9));
  const auto plan = plan_rs_ag(network, first(5), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Domain& domain = plan->domains.at(0);
  EXPECT_EQ(objective(*plan), "rs-ag");
  EXPECT_EQ(domain.classes.at(1).trees.size(), 5u);
  EXPECT_EQ(domain.classes.at(0).max_bytes, 5u * (64 << 10) - 1) << "four blocks for each owner";
  expect_shares_of_owners(domain);
  EXPECT_NEAR(domain.certificate->tau, 0.8e-9, 1e-13);
  EXPECT_NEAR(domain.certificate->lower_bound, 0.8e-9, 1e-13);
}

// Without sums in each rack, each of R w workers would send to those of other racks alone.
TEST_F(RsAgPlan, OfRacksTakesWhatTheirLinksTake) {
  for (const double uplink : {0.5, 1.0, 2.0}) {
    const auto plan = plan_rs_ag(in_gigabytes(racks(2, 4, uplink)), first(8), {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const Domain& domain = plan->domains.at(0);
    expect_shares_of_owners(domain);
    const double least = std::max(7.0 / 8, 0.5 / uplink) * 1e-9;
    EXPECT_NEAR(domain.certificate->lower_bound, least, 1e-6 * least);
    EXPECT_NEAR(domain.certificate->tau, least, 2e-3 * least) << "with weights in 1/65536";
    EXPECT_TRUE(check_served(*plan).ok());
  }
}

TEST_F(RsAgPlan, ResultsGoAnotherWayWhereLinksDo) {
  Network network;
  network.vertices = equal_machines(3, 0);
  for (const auto& [from, to, capacity] :
       std::vector<Link>{{0, 1, 1}, {1, 2, 1}, {2, 0, 1}, {1, 0, 3}, {2, 1, 3}, {0, 2, 3}}) {
    network.links.push_back({from, to, capacity});
  }
  for (Vertex& vertex : network.vertices) vertex.in = vertex.out = 4;
  const auto plan = plan_rs_ag(in_gigabytes(network), first(3), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Domain& domain = plan->domains.at(0);
  expect_shares_of_owners(domain);
  const std::vector<Tree>& trees = domain.classes.back().trees;
  EXPECT_TRUE(std::any_of(trees.begin(), trees.end(),
                          [](const Tree& tree) { return tree.has_other_way(); }));
  EXPECT_NEAR(domain.certificate->tau, domain.certificate->lower_bound,
              1e-3 * domain.certificate->tau);
}

// Machines with links of 1 GB/s to those before and after them, without a switch.
Network path_of(VertexId count, bool is_ring) {
  Network path;
  path.vertices = equal_machines(count, 0, 2e9);
  for (VertexId id = 0; id + 1 < count + (is_ring ? 1 : 0); ++id) {
    path.links.push_back({id, (id + 1) % count, 1e9});
    path.links.push_back({(id + 1) % count, id, 1e9});
  }
  return path;
}

TEST_F(RsAgPlan, OfARingGoesBothWaysRound) {
  const auto plan = plan_rs_ag(path_of(8, true), first(8), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  expect_shares_of_owners(plan->domains.at(0));
  const Certificate& proof = *plan->domains.at(0).certificate;
  EXPECT_NEAR(proof.lower_bound, 7.0 / 8 / 2e9, 1e-14);
  EXPECT_LE(proof.tau, 1.15 * proof.lower_bound) << "of 4 levels are trees with 4 and 3 edges";
}

TEST_F(RsAgPlan, CountsNicsBelowTheLinksOfAMachine) {
  Network network = star_network(equal_machines(4, 0, 1e9));
  network.links.push_back({0, 1, 1e9});
  network.links.push_back({1, 0, 1e9});
  const auto plan = plan_rs_ag(network, first(4), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NEAR(plan->domains.at(0).certificate->tau, 0.75e-9, 1e-12);
}

TEST_F(RsAgPlan, OfMeasuredMachinesHasAsManyWorkersAsTrees) {
  auto machines = equal_machines(70, 0, 1e9);
  for (std::size_t i = 0; i < machines.size(); ++i) {
    machines[i].in = 1e9 + static_cast<double>(i % 7) * 1e6;
    machines[i].sum = 20e9;
  }
  const auto plan = plan_rs_ag(star_network(machines), first(70), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Domain& domain = plan->domains.at(0);
  expect_shares_of_owners(domain);
  EXPECT_LE(domain.certificate->tau, 1.03 * domain.certificate->lower_bound);
}

TEST_F(RsAgPlan, KeepsTheLimitsOrRefuses) {
  const auto deep = plan_rs_ag(path_of(7, false), first(7), {});
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().message.find("at most 4 levels"), std::string::npos)
      << deep.error().message;
  const auto one = plan_rs_ag(star_network(equal_machines(1, 1, 1e9)), first(1), {});
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message.find("2"), std::string::npos) << one.error().message;
  RsAgOptions few;
  few.max_trees = 8;
  const auto fits = plan_rs_ag(in_gigabytes(racks(2, 4, 0.5)), first(8), few);
  ASSERT_TRUE(fits.ok()) << fits.error().message;
  EXPECT_EQ(fits->domains[0].classes[1].trees.size(), 8u) << "one for each worker";
  few.max_trees = 7;
  EXPECT_FALSE(plan_rs_ag(in_gigabytes(racks(2, 4, 0.5)), first(8), few).ok());
}

// Each machine has one way to each other, so nodes use the routes of the best schedule.
TEST_F(RsAgPlan, IsAsFastAsTheBestScheduleOnAnyRacks) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const std::size_t count = 2 + random() % 3, workers = 1 + random() % 4;
    Network network = racks(count, workers, 1 + static_cast<double>(random() % 4) / 2);
    const auto machines = static_cast<std::size_t>(network.machines());
    for (VertexId id = 0; id < machines; ++id) {  // NICs of several speeds
      const auto speed = static_cast<double>(1 + random() % 3);
      network.vertices[id].in = network.vertices[id].out = speed;
      for (Link& link : network.links) {
        if (link.from == id || link.to == id) link.capacity = speed;
      }
    }
    const auto plan = plan_rs_ag(in_gigabytes(network), first(machines), {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const Certificate& proof = *plan->domains.at(0).certificate;
    EXPECT_LE(proof.tau, 1.03 * proof.lower_bound) << trial;  // 2% buy fewer levels
    expect_shares_of_owners(plan->domains.at(0));
  }
}

TEST_F(RsAgPlan, OfManyWorkersIsNearTheBound) {
  const auto plan = plan_rs_ag(in_gigabytes(racks(8, 8, 2)), first(64), {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Domain& domain = plan->domains.at(0);
  expect_shares_of_owners(domain);
  EXPECT_LE(domain.certificate->tau, 1.03 * domain.certificate->lower_bound);
  EXPECT_TRUE(check_served(*plan).ok());
}

}  // namespace
}  // namespace tally::plan
