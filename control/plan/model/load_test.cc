#include "control/plan/model/load.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

std::vector<Tree> stars(std::size_t machines, const std::vector<VertexId>& workers) {
  std::vector<Tree> trees;
  for (VertexId root = 0; root < machines; ++root) {
    trees.push_back(Tree{0, star_parents(machines, workers, root), {}});
  }
  return trees;
}

TEST(Load, OfAStarAtAHelperIsItsNicTimesTheWorkers) {
  auto machines = equal_machines(3, 1, 2);
  machines[3].sum = 1;
  const Network network = star_network(machines);
  Routes routes(network);
  const std::vector<Tree> trees = {Tree{0, {3, 3, 3, -1}, {}}};
  const ClassLoad load = evaluate(routes, trees, std::vector<double>{1});
  EXPECT_DOUBLE_EQ(load.tau, 3);  // it sums three bytes for each
  EXPECT_EQ(describe(load.loads[load.binds], network), "sums of helper 3");
  EXPECT_DOUBLE_EQ(load.loads[6].bytes, 3);  // helper to switch: the result, three times
  EXPECT_DOUBLE_EQ(load.loads[6].seconds(), 1.5);
  EXPECT_EQ(describe(load.loads[6], network), "helper 3 -> switch 4");
  EXPECT_DOUBLE_EQ(load.loads[0].bytes, 1);
  EXPECT_EQ(load.fill_hops, 1);
  EXPECT_DOUBLE_EQ(load.edge_seconds, 0.5);
  EXPECT_DOUBLE_EQ(load.fill_seconds, 1.5);  // the results, after the sums
}

TEST(Load, UpAndDownMayDiffer) {
  const Network network = star_network(equal_machines(3, 0));
  Routes routes(network);
  // Up a chain 2-1-0, down a star from 0.
  const std::vector<Tree> trees = {Tree{0, {-1, 0, 1}, {-1, 0, 0}}};
  const ClassLoad load = evaluate(routes, trees, std::vector<double>{1});
  std::vector<double> bytes;
  for (std::size_t i = 0; i < 6; ++i) bytes.push_back(load.loads[i].bytes);
  EXPECT_EQ(bytes, (std::vector<double>{2, 1, 1, 2, 1, 1}));  // out and in of 0, 1, 2
  EXPECT_DOUBLE_EQ(load.tau, 2);
  EXPECT_EQ(describe(load.loads[load.binds], network), "worker 0 -> switch 3");
  EXPECT_EQ(load.fill_hops, 2);  // two hops up, one down, less one
}

TEST(Load, OfReduceScattersAndAllGathersIsThatOfTheSlowerWay) {
  const Network network = star_network(equal_machines(3, 0));
  Routes routes(network);
  const Parents chain = {-1, 0, 1}, star = {-1, 0, 0};
  SizeClass one{.chunk = 1, .trees = {Tree{kWeightUnit, chain, {}}}};
  EXPECT_DOUBLE_EQ(evaluate(routes, one).tau, 2) << "sums and results pass worker 1";
  one.rs_ag = true;
  const ClassLoad chains = evaluate(routes, one);
  EXPECT_DOUBLE_EQ(chains.tau, 1);
  EXPECT_EQ(chains.fill_hops, 1);
  EXPECT_DOUBLE_EQ(operation_seconds(routes, one, 100, 0), 101);
  one.trees[0].down = star;
  EXPECT_DOUBLE_EQ(evaluate(routes, one).tau, 2) << "results go out of worker 0 twice";
  one.trees[0] = {kWeightUnit, star, chain};
  EXPECT_DOUBLE_EQ(evaluate(routes, one).tau, 2) << "sums go into it twice";
  one.divided = false;
  EXPECT_DOUBLE_EQ(operation_seconds(routes, one, 100, 0), 200);
}

TEST(Load, ANicWithSeveralLinksMayBind) {
  Network network;
  network.vertices = equal_machines(3, 0, 1);
  for (VertexId from = 0; from < 3; ++from) {
    for (VertexId to = 0; to < 3; ++to) {
      if (from != to) network.links.push_back({from, to, 1});
    }
  }
  Routes routes(network);
  const std::vector<Tree> trees = {Tree{0, {-1, 0, 0}, {}}};
  const ClassLoad load = evaluate(routes, trees, std::vector<double>{1});
  EXPECT_DOUBLE_EQ(load.tau, 2);
  EXPECT_EQ(describe(load.loads[load.binds], network), "into worker 0");
}

// Known values (docs/planning.md): stars over oversubscribed racks, in units of bytes / NIC.
TEST(Load, OfStarsOverRacksIsThatOfTheRackLinks) {
  for (const auto& [parent_connection, tau] :
       std::vector<std::pair<double, double>>{{2, 2.0}, {1, 4.0}, {0.5, 8.0}}) {
    const Network network = racks(2, 4, parent_connection);
    Routes routes(network);
    const auto trees = stars(8, {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_DOUBLE_EQ(evaluate(routes, trees, std::vector<double>(8, 0.125)).tau, tau);
  }
}

// A path through all workers, rack by rack, rooted at either end: what a ring does.
TEST(Load, OfARackOrderedRingIsItsClosedForm) {
  const Network network = racks(2, 4, 1);
  Routes routes(network);
  std::vector<Tree> trees;
  for (int start = 0; start < 8; ++start) {
    Parents path(8, kIsAbsent);
    for (int step = 0; step < 8; ++step) {
      path[static_cast<std::size_t>((start + step) % 8)] = step == 0 ? -1 : (start + step + 7) % 8;
    }
    trees.push_back(Tree{0, path, {}});
  }
  EXPECT_DOUBLE_EQ(evaluate(routes, trees, std::vector<double>(8, 0.125)).tau, 2 * 7.0 / 8);
}

TEST(Load, PredictsTheTimeAndTheFill) {
  const Network network = star_network(equal_machines(4, 0, 1e9));
  Routes routes(network);
  SizeClass size_class{{}, 1000, 0, {}};
  for (VertexId root = 0; root < 4; ++root) {
    size_class.trees.push_back(
        Tree{16384, star_parents(4, std::vector<VertexId>{0, 1, 2, 3}, root), {}});
  }
  const ClassLoad load = evaluate(routes, size_class);
  EXPECT_DOUBLE_EQ(load.tau, 1.5e-9);
  EXPECT_DOUBLE_EQ(load.fill_seconds, 6e-9 - 1.5e-9);  // three chunks come to a root, and go out
  EXPECT_DOUBLE_EQ(load.small_fill_seconds, 4.5e-9 / 4);
  EXPECT_DOUBLE_EQ(predicted_seconds(load, 1e6, 1000, 1e-5), 1.5e-3 + 1e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(predicted_seconds(load, 10, 1000, 0), 15e-9 + 10e-9);  // one small chunk
}

// Two racks of two workers. Their uplinks have half the speed of a NIC.
TEST(Load, AChunkFillsTheLinksThatChildrenShare) {
  const Network network = racks(2, 2, 0.5);
  Routes routes(network);
  const double nic = 1 / network.vertices[0].out;
  const auto fill_of = [&](const Parents& parents) {
    const std::vector<Tree> trees = {Tree{0, parents, {}}};
    const ClassLoad load = evaluate(routes, trees, std::vector<double>{1});
    return (load.fill_seconds + load.tau) / nic;
  };
  // Two chunks cross the uplinks, one after the other, each way.
  EXPECT_DOUBLE_EQ(fill_of({-1, 0, 0, 0}), 2 * (2 / 0.5));
  // One passes a NIC. Then one comes from the same rack, while the sum crosses the uplinks.
  EXPECT_DOUBLE_EQ(fill_of({-1, 0, 0, 2}), 2 * (1 + 1 / 0.5));
}

TEST(Load, OneWorkerAloneHasNoLoad) {
  const Network network = star_network(equal_machines(1, 0));
  Routes routes(network);
  const std::vector<Tree> trees = {Tree{0, {-1}, {}}};
  const ClassLoad load = evaluate(routes, trees, std::vector<double>{1});
  EXPECT_EQ(load.tau, 0);
  EXPECT_EQ(predicted_seconds(load, 1e9, 1000, 1e-5), 0);
}

TEST(Operation, BelongsToTheFirstClassThatTakesItsSize) {
  const Plan plan = small_plan();
  const Domain& domain = plan.domains[0];
  EXPECT_EQ(&size_class_of(domain, 1), &domain.classes[0]);
  EXPECT_EQ(&size_class_of(domain, 65536), &domain.classes[0]);
  EXPECT_EQ(&size_class_of(domain, 65537), &domain.classes[1]);
}

TEST(Operation, ThatIsDividedTakesTheTimeOfAllTrees) {
  const Plan plan = small_plan();
  Routes routes(plan.network);
  const SizeClass& large = plan.domains[0].classes[1];
  EXPECT_EQ(operation_seconds(routes, large, 1e9, 1e-6),
            predicted_seconds(evaluate(routes, large), 1e9, 262144, 1e-6));
}

TEST(Operation, ThatTravelsWholeTakesTheMeanOfItsTrees) {
  // Two workers and a helper with NICs of 1000: a star at the helper receives both gradients, and a
  // star at a worker receives one.
  const Network network = star_network(equal_machines(2, 1, 1000));
  Routes routes(network);
  SizeClass whole{{}, 100, 0, {Tree{49152, {2, 2, -1}, {}}, Tree{16384, {-1, 0, -2}, {}}}, false};
  // By the time of the busiest NIC, and of one chunk to fill the second of two hops.
  const double at_helper = 2 + 0.1, at_worker = 1 + 0.1;
  EXPECT_NEAR(operation_seconds(routes, whole, 1000, 0), 0.75 * at_helper + 0.25 * at_worker, 1e-9);
  whole.divided = true;
  // The helper's NIC carries 2 x 0.75 each way, worker 0's 0.75 + 0.25.
  EXPECT_NEAR(operation_seconds(routes, whole, 1000, 0), 1.5 + 0.1, 1e-9);
}

}  // namespace
}  // namespace tally::plan
