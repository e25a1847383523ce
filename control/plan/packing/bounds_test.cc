// Theorems about packings, and properties that every planner must have.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/lp/lp.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/packed_planner.h"
#include "control/plan/packing/same_way.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

class PackingBounds : public testing::Test {
 protected:
  void SetUp() override {
    if (!lp::is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

// The optimum, without the choice of few flat trees.
PackingReport report_of(const Network& network, WayDown way = WayDown::kSameWay) {
  PackingOptions options;
  options.use_closed_form = false;
  options.gap = 1e-4;
  options.way_down = way;
  PackingReport report;
  const auto plan = plan_packed(network, workers_of(network), options, &report);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return report;
}

double capacity_between(const Network& network, const std::vector<std::size_t>& part) {
  double sum = 0;
  for (const Link& link : network.links) {
    if (part[link.from] != part[link.to]) sum += link.capacity / 2;
  }
  return sum;
}

// The bound of all partitions of the machines into parts (part i begins at the first machine that
// is in none of the parts before).
double bound_of_partitions(const Network& network, std::vector<std::size_t>& part, std::size_t next,
                           std::size_t parts) {
  if (next == part.size()) {
    return parts < 2 ? 0 : static_cast<double>(parts - 1) / capacity_between(network, part);
  }
  double bound = 0;
  for (std::size_t i = 0; i <= parts; ++i) {
    part[next] = i;
    bound = std::max(bound, bound_of_partitions(network, part, next + 1, std::max(parts, i + 1)));
  }
  return bound;
}

TEST_F(PackingBounds, TreesOfOneWayTakeTheTimeOfTheSlowerDirections) {
  std::mt19937_64 random(207);
  for (int i = 0; i < 30; ++i) {
    Network network = rack_network(2, 3, i % 2, 1e3, 1.5e3);
    for (Link& link : network.links) link.capacity *= 1 + 0.5 * static_cast<double>(random() % 3);
    for (VertexId id = 0; id < network.machines(); ++id) {
      network.vertices[id].in = network.vertices[id].out = 2e3;
      network.vertices[id].sum = 1e4;
    }
    const auto slower = slower_directions(network, workers_of(network));
    ASSERT_TRUE(slower.has_value());
    const double tau = report_of(*slower).served;
    EXPECT_NEAR(report_of(network).served, tau, 2e-3 * tau) << i;
  }
}

TEST_F(PackingBounds, DirectionsCountWhereSumsLimitOrALinkIsOneWay) {
  Network network = rack_network(2, 3, 1, 1e3, 2e3);
  const auto workers = workers_of(network);
  EXPECT_FALSE(slower_directions(network, workers).has_value()) << "no direction is slower";
  network.links[0].capacity = 500;
  ASSERT_TRUE(slower_directions(network, workers).has_value());
  EXPECT_EQ(slower_directions(network, workers)->links[1].capacity, 500);
  Network slow = network;
  slow.vertices[3].sum = 900;
  EXPECT_FALSE(slower_directions(slow, workers).has_value());
  Network one_way = network;
  one_way.links.push_back({0, 4, 1e3});
  EXPECT_FALSE(slower_directions(one_way, workers).has_value());
}

// Nash-Williams and Tutte, 1961.
TEST_F(PackingBounds, WorkersAloneNeedTheTimeOfTheWorstPartition) {
  std::mt19937_64 random(201);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t machines = 2 + random() % 6;
    Network network = overlay_network(machines, 0);
    for (VertexId a = 0; a < machines; ++a) {
      for (VertexId b = 0; b < a; ++b) {
        if (b + 1 == a || random() % 2 == 0) {
          join(network, a, b, static_cast<double>(100 * (1 + random() % 9)));
        }
      }
    }
    std::vector<std::size_t> part(machines, 0);
    const double bound = bound_of_partitions(network, part, 0, 0);
    EXPECT_NEAR(report_of(network).any_tree, bound, 2e-4 * bound);
  }
}

// The formula of docs/planning.md for stars with NICs that differ.
TEST_F(PackingBounds, NicsThatDifferNeedTheTimeOfTheFormula) {
  std::mt19937_64 random(202);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<Vertex> machines;
    const std::size_t workers = 2 + random() % 5, helpers = random() % 4;
    while (machines.size() < workers + helpers) {
      const double speed = static_cast<double>(1000 + random() % 9000);
      machines.push_back(machine(machines.size() < workers ? Role::kWorker : Role::kHelper, speed));
    }
    const PackingReport report = report_of(star_network(machines));
    const double tau = star_shares(machines).tau;
    EXPECT_NEAR(report.any_tree, tau, 2e-4 * tau);
    EXPECT_NEAR(report.lower_bound, tau, 2e-4 * tau);
  }
}

TEST_F(PackingBounds, NoPlanIsFasterThanTheSlowestWorkersNic) {
  std::mt19937_64 random(203);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const bool two_way = random() % 2 == 0;
    const Network network = random_network(random, two_way);
    const PackingReport report = report_of(network, WayDown::kAnyWay);
    std::map<VertexId, double> out, in;
    for (const Link& link : network.links) {
      out[link.from] += link.capacity;
      in[link.to] += link.capacity;
    }
    for (const VertexId id : workers_of(network)) {
      const Vertex& worker = network.vertices[id];
      const double slower = std::min({worker.in, worker.out, out[id], in[id]});
      EXPECT_GE(report.any_tree, 1 / slower * (1 - 1e-9));
    }
    EXPECT_LE(report.lower_bound, report.any_tree * (1 + 1e-9));
  }
}

// A worker's gradient must reach every other worker, so no plan takes less than the flow between
// two of them allows: the least capacity of a cut (Ford and Fulkerson, 1956).
TEST_F(PackingBounds, NoPlanIsFasterThanTheFlowBetweenTwoWorkers) {
  std::mt19937_64 random(208);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, random() % 2 == 0);
    const PackingReport report = report_of(network, WayDown::kAnyWay);
    std::uint32_t workers = 0;
    for (const VertexId id : workers_of(network)) workers |= 1U << id;
    for (std::uint32_t set = 1; set < 1U << network.vertices.size(); ++set) {
      if ((set & workers) == 0 || (set & workers) == workers) continue;
      double out = 0;
      for (const Link& link : network.links) {
        if ((set >> link.from & 1) == 1 && (set >> link.to & 1) == 0) out += link.capacity;
      }
      EXPECT_GE(report.any_tree, 1 / out * (1 - 1e-9)) << set;
      EXPECT_GE(report.plan, 1 / out * (1 - 1e-9)) << set;
    }
  }
}

TEST_F(PackingBounds, FewTreesAreNotTooHigh) {
  std::mt19937_64 random(209);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t machines = 5 + random() % 6;
    Network network = overlay_network(machines, 0);
    for (VertexId a = 1; a < machines; ++a) {
      for (VertexId b = 0; b < a; ++b) {
        if (b > 0 && random() % 2 == 0) continue;  // the first worker reaches all
        join(network, a, b, b == 0 ? 100 : static_cast<double>(100 * (1 + random() % 9)));
      }
    }
    for (const std::uint32_t height : {1U, 2U}) {
      PackingOptions options;
      options.max_height = height;
      options.use_closed_form = false;
      const auto many = plan_packed(network, workers_of(network), options);
      options.max_trees = 1 + random() % 3;
      const auto few = plan_packed(network, workers_of(network), options);
      ASSERT_EQ(few.ok(), many.ok()) << (few ? many : few).error().message;
      if (!few) continue;
      EXPECT_LE(few->domains[0].classes[0].trees.size(), options.max_trees);
    }
  }
}

TEST_F(PackingBounds, MoreCapacityNeverHurts) {
  std::mt19937_64 random(204);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    Network network = random_network(random, true);
    const double before = report_of(network).any_tree;
    const std::size_t pair = 2 * (random() % (network.links.size() / 2));
    for (const std::size_t i : {pair, pair + 1}) network.links[i].capacity *= 1.5;
    for (Vertex& one : network.vertices) {
      one.in *= 1.5;
      one.out *= 1.5;
    }
    EXPECT_LE(report_of(network).any_tree, before * (1 + 2e-4));
  }
}

TEST_F(PackingBounds, AnotherHelperNeverHurts) {
  std::mt19937_64 random(205);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t racks = 2 + random() % 2, workers = 2 + random() % 3, helpers = random() % 3;
    const double uplink = static_cast<double>(500 + random() % 3000);
    const double before = report_of(rack_network(racks, workers, helpers, 1e3, uplink)).any_tree;
    const double after = report_of(rack_network(racks, workers, helpers + 1, 1e3, uplink)).any_tree;
    EXPECT_LE(after, before * (1 + 2e-4));
  }
}

TEST_F(PackingBounds, TimesScaleWithTheSpeeds) {
  std::mt19937_64 random(206);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    Network network = random_network(random, trial % 2 == 0);
    const double before = report_of(network).any_tree;
    for (Link& link : network.links) link.capacity *= 1e7;
    for (Vertex& one : network.vertices) {
      one.in *= 1e7;
      one.out *= 1e7;
      if (one.sum) *one.sum *= 1e7;
    }
    EXPECT_NEAR(report_of(network).any_tree * 1e7, before, 3e-4 * before);
  }
}

// Other names for the machines. Between two machines there is one route only, because with several
// equally short ones the lowest ids decide.
TEST_F(PackingBounds, NumbersOfMachinesDoNotMatter) {
  std::mt19937_64 random(207);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    Network network = rack_network(2 + random() % 2, 2, 1, 1e3, 700);
    for (std::size_t i = 0; i < network.links.size(); i += 2) {
      const auto speed = static_cast<double>(500 + random() % 500);
      network.links[i].capacity = network.links[i + 1].capacity = speed;
    }
    std::vector<VertexId> other(network.vertices.size());
    for (VertexId id = 0; id < other.size(); ++id) other[id] = id;
    std::shuffle(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(network.machines()),
                 random);
    Network renamed = network;
    for (VertexId id = 0; id < other.size(); ++id)
      renamed.vertices[other[id]] = network.vertices[id];
    for (Link& link : renamed.links) link = {other[link.from], other[link.to], link.capacity};
    const double tau = report_of(network).any_tree;
    EXPECT_NEAR(report_of(renamed).any_tree, tau, 2e-4 * tau);
  }
}

TEST_F(PackingBounds, TheSameNetworkHasTheSamePlan) {
  const Network network = rack_network(3, 4, 1, 1e9, 2e9);
  const auto first = plan_packed(network, workers_of(network), {});
  const auto second = plan_packed(network, workers_of(network), {});
  ASSERT_TRUE(first.ok() && second.ok());
  const auto& trees = first->domains[0].classes[0].trees;
  const auto& again = second->domains[0].classes[0].trees;
  ASSERT_EQ(trees.size(), again.size());
  for (std::size_t i = 0; i < trees.size(); ++i) {
    EXPECT_EQ(trees[i].up, again[i].up);
    EXPECT_EQ(trees[i].weight, again[i].weight);
  }
}

TEST_F(PackingBounds, DamagedCertificatesAreRefused) {
  std::mt19937_64 random(208);
  for (int trial = 0; trial < 30; ++trial) {
    SCOPED_TRACE(trial);
    const Network network = random_network(random, trial % 2 == 0);
    auto plan = plan_packed(network, workers_of(network), {});
    ASSERT_TRUE(plan.ok());
    Certificate& certificate = *plan->domains[0].certificate;
    const Certificate whole = certificate;
    certificate.lower_bound = whole.tau;
    EXPECT_EQ(validate(*plan, {}).ok(), whole.tau <= whole.lower_bound * (1 + 2e-6));
    certificate = whole;
    certificate.tau *= 0.99;
    EXPECT_FALSE(validate(*plan, {}).ok());
    certificate = whole;
    certificate.dual[random() % whole.dual.size()].value *= -1;
    EXPECT_FALSE(validate(*plan, {}).ok());
    certificate = whole;
    certificate.dual.push_back(whole.dual[0]);
    EXPECT_FALSE(validate(*plan, {}).ok());
    certificate = whole;
    certificate.lower_bound *= 1.00001;
    EXPECT_FALSE(validate(*plan, {}).ok());
  }
}

}  // namespace
}  // namespace tally::plan
