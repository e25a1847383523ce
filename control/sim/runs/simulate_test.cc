#include "control/sim/runs/simulate.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "control/plan/size_classes/sized_plan.h"
#include "control/sim/core/ready_times.h"
#include "tests/support/control/test_plans.h"
#include "tests/support/perf/packed_trees.h"

namespace tally::simulator {
namespace {

using plan::Network;

constexpr std::uint64_t kChunk = 256 << 10;
constexpr std::uint64_t kBytes = 512 * kChunk;

Simulated run(const Network& network, const Work& work, const Scenario& scenario) {
  const auto result = simulate(network, plan::workers_of(network), work, scenario);
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}

TreeSet packed(const Network& network, std::uint64_t bytes = kBytes) {
  const auto trees = plan::packed_trees(network, 50);
  if (trees.empty()) return {};
  return trees_of_plan(plan::plan_of(network, trees, kChunk, 0).domains[0], bytes, 0, 0);
}

// Two racks of four workers, with helpers and a link of each rack. tau is in units of bytes / NIC.
struct Known {
  std::uint32_t helpers;
  double link, tau;
};
constexpr Known kKnown[] = {{0, 2, 1.75}, {2, 2, 1.2857}, {1, 1, 1.5}, {4, 1, 1.0909}, {2, 0.5, 2}};

Scenario scenario_of(Order order, Forwarding forwarding, std::uint32_t in_flight = 0) {
  Scenario scenario;
  scenario.fabric = {order, forwarding, 0};
  scenario.tiles_in_flight = in_flight;
  return scenario;
}

TEST(Simulate, OldestFirstIsNearTheBoundOnPackedTrees) {
  for (const Known& known : kKnown) {
    const Network network = plan::racks(2, 4, known.helpers, known.link);
    const TreeSet set = packed(network);
    if (set.trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
    const double tau = known.tau * static_cast<double>(kBytes) / 1e9;
    for (const Forwarding forwarding : {Forwarding::kStore, Forwarding::kCut}) {
      const Simulated result = run(network, set, scenario_of(Order::kOldest, forwarding));
      EXPECT_NEAR(result.bound / tau, 1, 0.03) << known.tau << ": the packing";
      EXPECT_GE(result.ratio(), 1);
      EXPECT_LE(result.ratio(), 1.06) << known.tau << ", " << set.trees.size() << " trees";
    }
  }
}

// With several levels, messages of a tile are due at different times (DueTimes).
TEST(Simulate, LargeRacksAreNearTheBoundWithFewChunks) {
  for (const auto& [count, link] : {std::pair(4u, 4.0), std::pair(8u, 2.0)}) {
    const Network network = plan::racks(count, 8, 2, link);
    const auto plan = plan::plan_by_size(network, plan::workers_of(network), {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    if (plan->method != "tpp-cg") GTEST_SKIP() << "this build cannot solve linear programs";
    const TreeSet set = trees_of_plan(plan->domains[0], kBytes, 0, 0);
    const Simulated result = run(network, set, scenario_of(Order::kOldest, Forwarding::kCut));
    EXPECT_LE(result.ratio(), 1.06) << count << " racks, " << set.trees.size() << " trees";
  }
}

TEST(Simulate, OldestFirstIsNoWorseThanFifoOnPackedTrees) {
  const Network network = plan::racks(2, 4, 2, 2);
  const TreeSet set = packed(network);
  if (set.trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
  const Simulated oldest = run(network, set, scenario_of(Order::kOldest, Forwarding::kStore));
  const Simulated fifo = run(network, set, scenario_of(Order::kFifo, Forwarding::kStore));
  EXPECT_LT(oldest.seconds * 1.02, fifo.seconds);
}

TEST(Simulate, FifoIsFarFromTheBoundOnPackedTrees) {
  for (const Known& known : kKnown) {
    const Network network = plan::racks(2, 4, known.helpers, known.link);
    const TreeSet set = packed(network);
    if (set.trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
    const double ratio = run(network, set, scenario_of(Order::kFifo, Forwarding::kStore)).ratio();
    EXPECT_GT(ratio, 1.1) << known.tau;
    EXPECT_LT(ratio, 1.47) << known.tau;
  }
}

TEST(Simulate, FewTilesInFlightStarveTheLinks) {
  const Network network = plan::racks(2, 4, 2, 2);
  const TreeSet set = packed(network);
  if (set.trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
  const auto with = [&](std::uint32_t tiles) {
    return run(network, set, scenario_of(Order::kOldest, Forwarding::kStore, tiles)).ratio();
  };
  EXPECT_GT(with(1), 4);
  EXPECT_GT(with(8), 1.15);
  EXPECT_LT(with(64), 1.09);
}

TEST(Simulate, MoreChunksComeNearerToTheBound) {
  const Network network = plan::racks(2, 4, 1, 1);
  const TreeSet few = packed(network, 128 * kChunk);
  const TreeSet many = packed(network, 4096 * kChunk);
  if (few.trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
  const Scenario scenario = scenario_of(Order::kOldest, Forwarding::kStore);
  EXPECT_LT(run(network, many, scenario).ratio(), run(network, few, scenario).ratio());
  EXPECT_LT(run(network, many, scenario).ratio(), 1.02);
}

// Every passage carries exactly what the loads of the plan say.
TEST(Simulate, BytesOfEachPassageAreThoseOfTheLoads) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<plan::Vertex> machines = plan::random_machines(random);
    for (plan::Vertex& machine : machines) {
      if (random() % 2 == 0) machine.sum = 1e9 * static_cast<double>(1 + random() % 10);
    }
    const auto plan = plan::plan_star(machines, {});
    ASSERT_TRUE(plan.ok());
    const TreeSet set = trees_of_plan(plan->domains[0], 3'333'332 + random() % 1000 * 4, 65536, 0);
    plan::Routes routes(plan->network);
    const plan::ClassLoad load = plan::evaluate(routes, set.trees, set.shares());
    for (const Rules rules : {Rules::kIdeal, Rules::kNodes}) {
      Scenario scenario =
          scenario_of(round % 2 == 0 ? Order::kFifo : Order::kOldest, Forwarding::kCut);
      scenario.rules = rules;
      const Simulated result = run(plan->network, set, scenario);
      ASSERT_EQ(result.loads.size(), load.loads.size());
      for (std::size_t i = 0; i < load.loads.size(); ++i) {
        EXPECT_NEAR(result.loads[i].bytes, load.loads[i].bytes * static_cast<double>(set.total()),
                    1)
            << plan::describe(load.loads[i], plan->network);
      }
      EXPECT_NEAR(result.bound, load.tau * static_cast<double>(set.total()), 1e-9);
    }
  }
}

TEST(Simulate, TheWaysUpAndDownMayDiffer) {
  const Network network = plan::star_network(plan::equal_machines(3, 0, 1e9));
  const TreeSet set{
      .trees = {plan::Tree{65536, {-1, 0, 1}, {-1, 0, 0}}}, .bytes = {100 << 20}, .chunk = 1 << 20};
  const Simulated result = run(network, set, Scenario{});
  EXPECT_NEAR(result.ratio(), 1, 0.05);
  EXPECT_NEAR(result.seconds, 2 * 0.1048576, 0.01);
  Scenario nodes;
  nodes.rules = Rules::kNodes;
  EXPECT_FALSE(simulate(network, plan::workers_of(network), set, nodes).ok());
}

TEST(Simulate, AMachineThatSumsSlowlyBinds) {
  auto machines = plan::equal_machines(4, 1, 1e9);
  machines[4].sum = 1e9;
  const Network network = plan::star_network(machines);
  const Question question{network, {0, 1, 2, 3}, 100 << 20, 1 << 20};
  const Simulated result = run(network, *make_baseline("ps", question), Scenario{});
  EXPECT_NEAR(result.seconds, 4 * 0.1048576, 0.02);
}

TEST(Simulate, TheSameSeedGivesTheSameTime) {
  const Network network = plan::racks(2, 4, 0, 1);
  for (const Baseline& baseline : baselines()) {
    if (baseline.name == "ps-sharded") continue;
    const Question question{network, plan::workers_of(network), 16 << 20, 64 << 10};
    const auto work = make_baseline(baseline.name, question);
    ASSERT_TRUE(work.ok()) << work.error().message;
    Scenario scenario;
    scenario.straggler_seconds = 0.01;
    scenario.fabric.hop_seconds = 1e-5;
    const Simulated first = run(network, *work, scenario);
    const Simulated again = run(network, *work, scenario);
    EXPECT_EQ(first.seconds, again.seconds);
    EXPECT_EQ(first.events, again.events);
    scenario.seed = 2;
    EXPECT_NE(first.seconds, run(network, *work, scenario).seconds);
  }
}

TEST(Simulate, NothingEndsBeforeTheLastGradientIsReady) {
  const Network network = plan::star_network(plan::equal_machines(8, 0, 1e9));
  const Question question{network, plan::workers_of(network), 16 << 20, 256 << 10};
  Scenario scenario;
  scenario.straggler_seconds = 0.1;
  for (const char* name : {"ring", "ps-colocated", "double-binary-tree"}) {
    const Work work = *make_baseline(name, question);
    const Simulated late = run(network, work, scenario);
    EXPECT_GT(late.last_ready, 0.1);
    EXPECT_GT(late.seconds, late.last_ready);
    EXPECT_LT(late.seconds, late.last_ready + run(network, work, Scenario{}).seconds * 1.01);
  }
}

TEST(Simulate, ASlowMachineBinds) {
  const Network network = plan::star_network(plan::equal_machines(8, 0, 1e9));
  const Question question{network, plan::workers_of(network), 64 << 20, 256 << 10};
  const Work work = *make_baseline("ps-colocated", question);
  Scenario scenario;
  scenario.slow = {{3, 4}};
  const Simulated result = run(network, work, scenario);
  EXPECT_NEAR(result.ratio(), 4, 0.2);
}

TEST(Simulate, AFailureCostsWhatWasDoneAndTheRepair) {
  const Network network = plan::star_network(plan::equal_machines(4, 2, 1e9));
  const Question question{network, {0, 1, 2, 3}, 100 << 20, 256 << 10};
  const Work work = *make_baseline("ps", question);
  const Simulated whole = run(network, work, Scenario{});
  Scenario scenario;
  scenario.failure = Failure{4, whole.seconds / 2, 1};
  const Simulated repaired = run(network, work, scenario);
  EXPECT_TRUE(repaired.repaired);
  // Worker 0 takes the vertex: three others send to it.
  EXPECT_NEAR(repaired.seconds, whole.seconds / 2 + 1 + 3 * 0.1048576, 0.01);
  EXPECT_GT(repaired.tiers[0].moved, whole.tiers[0].moved);
  scenario.failure->at = whole.seconds * 2;
  EXPECT_FALSE(run(network, work, scenario).repaired);
  EXPECT_EQ(run(network, work, scenario).seconds, whole.seconds);
  scenario.failure->at = 0.01;
  const Work graph = *make_baseline("ring", question);
  EXPECT_FALSE(simulate(network, question.workers, graph, scenario).ok());
}

TEST(Simulate, TiersCountTheBytesThatMustMove) {
  const Network network = plan::racks(2, 4, 0, 1);
  const Question question{network, plan::workers_of(network), 64 << 20, 256 << 10};
  const double bytes = 64 << 20;
  const Simulated ring = run(network, *make_baseline("ring", question), Scenario{});
  ASSERT_EQ(ring.tiers.size(), 2);
  EXPECT_DOUBLE_EQ(ring.tiers[0].moved, 2 * 7 * bytes);  // exactly what is necessary
  EXPECT_DOUBLE_EQ(ring.tiers[0].necessary, 2 * 7 * bytes);
  EXPECT_DOUBLE_EQ(ring.tiers[1].necessary, 2 * bytes);
  EXPECT_DOUBLE_EQ(ring.tiers[1].moved, 2 * 2 * 7 / 8.0 * bytes);
  const Simulated stars = run(network, *make_baseline("ps-colocated", question), Scenario{});
  EXPECT_DOUBLE_EQ(stars.tiers[1].moved, 2 * 4 * bytes);
}

}  // namespace
}  // namespace tally::simulator
