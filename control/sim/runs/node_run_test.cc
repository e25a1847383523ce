// Trees by the rules of nodes.
#include "control/sim/runs/node_run.h"

#include <gtest/gtest.h>

#include "control/plan/size_classes/sized_plan.h"
#include "control/sim/runs/simulate.h"
#include "tests/support/control/test_plans.h"
#include "tests/support/perf/packed_trees.h"

namespace tally::simulator {
namespace {

constexpr std::uint64_t kNodeChunk = 256 << 10;

Simulated run_nodes(const plan::Network& network, const TreeSet& set, double pace = 1,
                    double hop_seconds = 5e-6, Order order = Order::kFair) {
  Scenario scenario;
  scenario.rules = Rules::kNodes;
  scenario.nodes.pace = pace;
  scenario.fabric = {order, Forwarding::kCut, hop_seconds};
  const auto result = simulate(network, plan::workers_of(network), set, scenario);
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}

// With a pace, links carry what the plan says. Without one all nodes have the same bytes in flight,
// and helpers get too little.
TEST(NodeRun, PacedStarsComeNearTheBound) {
  for (const double speed : {1e9, 25e6}) {
    for (const std::size_t workers : {2U, 4U, 8U, 24U}) {
      const auto plan = plan::plan_star(plan::equal_machines(workers, workers / 2, speed), {});
      ASSERT_TRUE(plan.ok());
      const TreeSet set = trees_of_plan(plan->domains[0], 512 * kNodeChunk, 0, 0);
      const double paced = run_nodes(plan->network, set).ratio();
      EXPECT_GE(paced, 1);
      EXPECT_LT(paced, 1.03) << workers << " workers, " << speed;
      if (workers == 2) continue;  // any shares are right
      EXPECT_GT(run_nodes(plan->network, set, 0).ratio(), 1.15) << workers;
    }
  }
}

TEST(NodeRun, PacedTreesComeNearTheBound) {
  for (const auto& [helpers, link] :
       {std::pair{0U, 2.0}, {2U, 2.0}, {1U, 1.0}, {4U, 1.0}, {0U, 0.5}}) {
    const plan::Network network = plan::racks(2, 4, helpers, link);
    const auto trees = plan::packed_trees(network, 50);
    if (trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
    const TreeSet set = trees_of_plan(plan::plan_of(network, trees, kNodeChunk, 0).domains[0],
                                      512 * kNodeChunk, 0, 0);
    const Simulated result = run_nodes(network, set);
    EXPECT_GE(result.ratio(), 1);
    // With four helpers all links are full, and requests wait behind results.
    EXPECT_LT(result.ratio(), helpers == 4 ? 1.15 : 1.06)
        << helpers << " helpers, " << link << ", " << trees.size();
  }
}

TEST(NodeRun, PacedTreesOfManyRacksComeNearTheBound) {
  for (const auto& [count, link] : {std::pair(4U, 4.0), std::pair(8U, 2.0)}) {
    const plan::Network network = plan::racks(count, 8, 2, link);
    const auto plan = plan::plan_by_size(network, plan::workers_of(network), {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    if (plan->method != "tpp-cg") GTEST_SKIP() << "this build cannot solve linear programs";
    const TreeSet set = trees_of_plan(plan->domains[0], 512 * kNodeChunk, 0, 0);
    const Simulated result = run_nodes(network, set);
    EXPECT_GE(result.ratio(), 1);
    EXPECT_LT(result.ratio(), 1.05) << count << " racks, " << set.trees.size() << " trees";
  }
}

// Where all links are full both ways, child nodes wait for requests that are behind results.
TEST(NodeRun, RequestsWaitBehindResults) {
  const plan::Network network = plan::racks(2, 4, 4, 1);
  const auto trees = plan::packed_trees(network, 50);
  if (trees.empty()) GTEST_SKIP() << "this build cannot solve linear programs";
  const plan::Plan plan = plan::plan_of(network, trees, kNodeChunk, 0);
  const TreeSet set = trees_of_plan(plan.domains[0], 512 * kNodeChunk, 0, 0);
  EXPECT_GT(run_nodes(network, set, 1, 5e-6, Order::kFifo).ratio(), 1.3);
}

// The plan's rate is half of what the network carries. Roots go faster while there is room.
TEST(NodeRun, RootsGoFasterThanAPlanThatKnowsTooLittle) {
  auto plan = plan::plan_star(plan::equal_machines(8, 4, 1e9), {});
  const TreeSet set = trees_of_plan(plan->domains[0], 512 * kNodeChunk, 0, 0);
  EXPECT_LT(run_nodes(plan->network, set, 0.5).ratio(), 1.9);
  EXPECT_LT(run_nodes(plan->network, set, 0.1).ratio(), 3);
}

TEST(NodeRun, FewBuffersBetweenNodesStarveTheLinks) {
  const plan::Network network = plan::racks(2, 4, 0, 0.5);
  const plan::Tree tree{65536, {-1, 0, 0, 0, 0, 4, 4, 4}, {}};
  const auto with = [&](std::uint32_t window) {
    const plan::Plan plan = plan::plan_of(network, {tree}, 64 << 10, window);
    return run_nodes(network, trees_of_plan(plan.domains[0], 32 << 20, 0, 0), 1, 1e-4).ratio();
  };
  EXPECT_GT(with(1), 1.5);
  EXPECT_LT(with(64), 1.25);  // as many as nodes have; a request is on its way for 0.1 ms
  EXPECT_GT(with(1), with(2));
  EXPECT_GT(with(2), with(8));
}

// A vertex with more than 16 ranks pulls them in groups, and pushes to as many at a time.
TEST(NodeRun, AVertexOfManyRanksKeepsItsLinkBusy) {
  const plan::Network network = plan::star_network(plan::equal_machines(100, 1, 1e9));
  TreeSet set{
      .trees = {plan::Tree{65536, plan::star_parents(101, plan::workers_of(network), 100), {}}},
      .bytes = {16 << 20},
      .chunk = kNodeChunk};
  const Simulated result = run_nodes(network, set);
  EXPECT_LT(result.ratio(), 1.1);
}

TEST(NodeRun, NothingStartsBeforeTheSlowestWorkerHasAnnounced) {
  const auto plan = plan::plan_star(plan::equal_machines(4, 2, 1e9), {});
  const TreeSet set = trees_of_plan(plan->domains[0], 16 << 20, 0, 0);
  Scenario scenario;
  scenario.rules = Rules::kNodes;
  const auto workers = plan::workers_of(plan->network);
  const auto prompt = simulate(plan->network, workers, set, scenario);
  scenario.straggler_seconds = 0.1;
  const auto late = simulate(plan->network, workers, set, scenario);
  EXPECT_NEAR(late->seconds, late->last_ready + prompt->seconds, 1e-3)
      << "roots count nanoseconds, so tiles may change places";
}

TEST(NodeRun, ManyTilesOfDeepTreesEnd) {
  // A path of 12 machines: every machine but the last has a vertex, of heights 1 to 11.
  plan::Parents path(12, plan::kIsRoot);
  for (std::int32_t id = 1; id < 12; ++id) path[static_cast<std::size_t>(id)] = id - 1;
  const plan::Network network = plan::star_network(plan::equal_machines(12, 0, 1e9));
  TreeSet set{.trees = {plan::Tree{65536, path, {}}}, .bytes = {64 << 20}, .chunk = kNodeChunk};
  const Simulated result = run_nodes(network, set);
  EXPECT_LT(result.ratio(), 1.3);
}

}  // namespace
}  // namespace tally::simulator
