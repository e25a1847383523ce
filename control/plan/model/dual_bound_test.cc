#include "control/plan/model/dual_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/all_trees.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// The prices of the proof in docs/planning.md: 1 at workers, 1 - 2 / n at helpers.
std::vector<DualValue> star_dual(const std::vector<Vertex>& machines, double workers) {
  std::vector<DualValue> dual;
  for (VertexId id = 0; id < machines.size(); ++id) {
    const double value = machines[id].role == Role::kWorker ? 1 : 1 - 2 / workers;
    dual.push_back({Passage::kIn, id, id, value});
    dual.push_back({Passage::kOut, id, id, value});
  }
  return dual;
}

TEST(DualBound, ProvesTheBoundOfStars) {
  for (std::size_t helpers = 0; helpers <= 8; ++helpers) {
    const auto machines = equal_machines(8, helpers, 2);
    const Network network = star_network(machines);
    Routes routes(network);
    const auto bound =
        dual_bound(routes, std::vector<VertexId>{0, 1, 2, 3, 4, 5, 6, 7}, star_dual(machines, 8));
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    EXPECT_NEAR(*bound, star_shares(machines).tau, 1e-12);
  }
}

TEST(DualBound, OfOneWorkersNicIsItsTime) {
  const Network network = star_network(equal_machines(3, 2, 4));
  Routes routes(network);
  const std::vector<VertexId> workers = {0, 1, 2};
  EXPECT_DOUBLE_EQ(*dual_bound(routes, workers, std::vector<DualValue>{{Passage::kOut, 1, 1, 3}}),
                   0.25);
  EXPECT_DOUBLE_EQ(*dual_bound(routes, workers, std::vector<DualValue>{{Passage::kIn, 3, 3, 3}}), 0)
      << "plans need no helper";
}

// Random prices on random networks, uneven ones too: no tree is cheaper than the bound says, and
// one tree is as cheap.
TEST(DualBound, IsTheLeastPriceOfAllPairsOfTrees) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t workers = 2 + random() % 2, helpers = random() % 3;
    auto machines = equal_machines(workers, helpers, 5);
    for (Vertex& one : machines) {
      if (random() % 3 == 0) one.sum = 4;
    }
    Network network = star_network(machines);
    if (random() % 2 == 0) network.links.push_back({0, 1, 2});
    Routes routes(network);
    const Passages passages(routes);
    std::vector<DualValue> dual;
    double capacity = 0;
    for (std::size_t i = 0; i < passages.size(); ++i) {
      const auto& [passage, from, to, speed] = passages.at(i);
      if (i > 0 && random() % 3 == 0) continue;
      dual.push_back({passage, from, to, 1.0 + static_cast<double>(random() % 5)});
      capacity += speed * dual.back().value;
    }
    std::vector<VertexId> ids(workers);
    for (VertexId id = 0; id < workers; ++id) ids[id] = id;
    double least = std::numeric_limits<double>::infinity();
    for (VertexId root = 0; root < machines.size(); ++root) {
      double up = std::numeric_limits<double>::infinity(), down = up;
      for_each_member_set(machines.size(), ids, [&](const std::vector<VertexId>& members) {
        if (std::find(members.begin(), members.end(), root) == members.end()) return;
        for_each_rooted_tree(machines.size(), members, root, [&](const Parents& parents) {
          for (const bool way : {true, false}) {
            std::vector<double> bytes(passages.size());
            passages.add(parents, way, 1, bytes);
            double price = 0;
            std::size_t next = 0;
            for (std::size_t i = 0; i < passages.size(); ++i) {
              const auto& [passage, from, to, speed] = passages.at(i);
              if (next == dual.size() || dual[next].passage != passage || dual[next].from != from ||
                  dual[next].to != to) {
                continue;
              }
              price += bytes[i] * dual[next++].value;
            }
            (way ? up : down) = std::min(way ? up : down, price);
          }
        });
      });
      least = std::min(least, up + down);
    }
    const auto bound = dual_bound(routes, ids, dual);
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    EXPECT_NEAR(*bound, least / capacity, 1e-9);
  }
}

TEST(DualBound, RefusesPricesThatProveNothing) {
  const Network network = star_network(equal_machines(2, 0));
  Routes routes(network);
  const auto message_of = [&](const std::vector<DualValue>& dual) {
    const auto bound = dual_bound(routes, std::vector<VertexId>{0, 1}, dual, "cert.dual");
    return bound.ok() ? "" : bound.error().message;
  };
  EXPECT_EQ(message_of({}), "cert.dual: capacity x value sums to 0; must be above 0");
  EXPECT_EQ(message_of({{Passage::kIn, 0, 0, -1}}), "cert.dual[0][3] = -1: must be at least 0");
  for (const DualValue wrong :
       {DualValue{Passage::kSum, 0, 0, 1}, DualValue{Passage::kLink, 0, 1, 1},
        DualValue{Passage::kOut, 2, 2, 1}}) {
    EXPECT_EQ(message_of({wrong}),
              "cert.dual[0]: must name a link of the network, or the in, out or sum of a machine "
              "([\"in\", 3, 3, 0.5]), each once");
  }
  EXPECT_NE(message_of({{Passage::kIn, 0, 0, 1}, {Passage::kIn, 0, 0, 1}}), "");
}

TEST(DualBound, ACertificateIsRefusedWhenItsDualProvesLess) {
  const auto machines = equal_machines(4, 2, 1e9);
  auto plan = plan_star(machines, {});
  ASSERT_TRUE(plan.ok());
  Certificate& certificate = *plan->domains[0].certificate;
  certificate.dual = star_dual(machines, 4);
  EXPECT_TRUE(validate(*plan, {}).ok()) << validate(*plan, {}).error().message;
  for (DualValue& value : certificate.dual) {
    const double kept = value.value;
    value.value = kept * 1.5;
    EXPECT_NE(validate(*plan, {}).error().message.find("its dual proves"), std::string::npos);
    value.value = -kept;
    EXPECT_FALSE(validate(*plan, {}).ok());
    value.value = kept;
  }
  certificate.dual.pop_back();
  EXPECT_FALSE(validate(*plan, {}).ok());
}

}  // namespace
}  // namespace tally::plan
