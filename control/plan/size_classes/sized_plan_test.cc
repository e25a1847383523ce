#include "control/plan/size_classes/sized_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "control/plan/json/served.h"
#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

class SizedPlan : public testing::Test {
 protected:
  Plan made(const Network& network) {
    auto plan = plan_by_size(network, workers_of(network), options_, &report_);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    if (!plan) return {};
    EXPECT_TRUE(validate(*plan, Limits{}).ok());
    return std::move(plan).value();
  }

  // Of an operation of so many bytes by the plan's classes.
  double predicted(const Plan& plan, std::uint64_t bytes) const {
    Routes routes(plan.network);
    for (const SizeClass& one : plan.domains[0].classes) {
      if (one.max_bytes && *one.max_bytes < bytes) continue;
      const ClassLoad load = evaluate(routes, one);
      return seconds_of({load.tau, load.fill_hops, load.fill_seconds, load.small_fill_seconds},
                        static_cast<double>(bytes), {one.chunk, options_.hop_seconds});
    }
    return 0;
  }

  static std::size_t distinct_trees(const Plan& plan) {
    std::set<Parents> trees;
    for (const SizeClass& one : plan.domains[0].classes) {
      for (const Tree& tree : one.trees) trees.insert(tree.up);
    }
    return trees.size();
  }

  SizeOptions options_;
  SizeReport report_;
};

// Two racks of 4 workers and a helper below links of 1 GB/s: stars take 4 times as long as a NIC
// alone, and the best trees 1.5 times.
TEST_F(SizedPlan, SmallOperationsOfRacksHaveStarsAndLargeOnesTrees) {
  const Plan plan = made(rack_network(2, 4, 1, 1e9, 1e9));
  const Domain& domain = plan.domains[0];
  ASSERT_GE(domain.classes.size(), 2U);
  Routes routes(plan.network);
  const ClassLoad stars = evaluate(routes, domain.classes.front());
  const ClassLoad trees = evaluate(routes, domain.classes.back());
  EXPECT_EQ(report_.candidates.front().levels, 1U);
  EXPECT_NEAR(stars.tau * 1e9, 4, 0.01);
  EXPECT_EQ(stars.fill_hops, 1);
  EXPECT_NEAR(trees.tau * 1e9, 1.5, 0.05);
  EXPECT_GE(trees.fill_hops, 3);
  for (const SizeClass& one : domain.classes) EXPECT_TRUE(one.is_divided());
  EXPECT_TRUE(check_served(plan).ok());
  EXPECT_NEAR(domain.certificate->lower_bound * 1e9, 1.5, 0.01);
}

TEST_F(SizedPlan, WithoutLinearProgramsPlansAreNearlyAsGood) {
  options_.packing.solver = Solver::kWeights;
  const Plan plan = made(rack_network(2, 4, 1, 1e9, 1e9));
  EXPECT_EQ(plan.method, "tpp-mwu");
  const Domain& domain = plan.domains[0];
  ASSERT_GE(domain.classes.size(), 2U);
  Routes routes(plan.network);
  EXPECT_GT(evaluate(routes, domain.classes.front()).tau * 1e9, 3.9);
  EXPECT_LE(evaluate(routes, domain.classes.back()).tau * 1e9, 1.5 * 1.05);
  EXPECT_GE(domain.certificate->lower_bound * 1e9, 1.5 * 0.99);
  EXPECT_TRUE(check_served(plan).ok());
}

TEST_F(SizedPlan, FullBisectionHasOneClassOfStars) {
  const Plan plan = made(star_network(equal_machines(8, 4, 1e9)));
  ASSERT_EQ(plan.domains[0].classes.size(), 1U);
  EXPECT_EQ(plan.method, "star");
}

TEST_F(SizedPlan, NoPackingPredictsLessTimeForAnySize) {
  std::mt19937_64 random(72);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    Network network = random_network(random, round % 2 == 0);
    for (Link& link : network.links) link.capacity *= 1e7;
    for (Vertex& one : network.vertices) {
      one.in *= 1e7;
      one.out *= 1e7;
      if (one.sum) *one.sum *= 1e7;
    }
    options_.hop_seconds = round % 3 == 0 ? 0 : 1e-5;
    const Plan plan = made(network);
    const FillModel model{options_.packing.chunk, options_.hop_seconds};
    for (std::uint64_t bytes = 1; bytes < (std::uint64_t{1} << 33); bytes = bytes * 5 + 3) {
      for (const SizeCandidate& one : report_.candidates) {
        if (one.time.smallest > bytes || one.time.largest < bytes) continue;
        EXPECT_LE(predicted(plan, bytes),
                  seconds_of(one.time, static_cast<double>(bytes), model) * (1 + 1e-6));
      }
    }
    if (report_.candidates.empty()) continue;  // one class
    EXPECT_EQ(plan.domains[0].classes.size(), report_.ranges.size());
  }
}

TEST_F(SizedPlan, LargeOperationsAreAsFastAsInAPlanOfOneClass) {
  const Network network = rack_network(4, 4, 2, 12.5e9, 15e9);
  const auto one = plan_packed(network, workers_of(network), {});
  ASSERT_TRUE(one.ok()) << one.error().message;
  const Plan plan = made(network);
  EXPECT_LE(plan.domains[0].certificate->tau, one->domains[0].certificate->tau * 1.001);
  EXPECT_LE(distinct_trees(plan), kServedTrees);
}

// The best trees of eight racks include stars at workers. A chunk that is alone takes 126 times the
// time of a NIC there. Trees without them fill sooner, and take 1% more per byte.
TEST_F(SizedPlan, TreesThatFillSoonerCarryOperationsOfSomeHundredChunks) {
  const Plan plan = made(rack_network(8, 8, 2, 1e9, 2e9));
  if (plan.method != "tpp-cg") GTEST_SKIP() << "this build has no Clp";
  const SizeClass& some = size_class_of(plan.domains[0], 512 * options_.packing.chunk);
  const SizeClass& most = plan.domains[0].classes.back();
  EXPECT_LE(some.trees.size(), 48U);
  EXPECT_GT(most.trees.size(), 48U);
  Routes routes(plan.network);
  EXPECT_LE(evaluate(routes, some).tau, evaluate(routes, most).tau * 1.02);
  EXPECT_LT(evaluate(routes, some).fill_seconds, 50e-9);
  EXPECT_GT(evaluate(routes, most).fill_seconds, 100e-9);
  // Few trees are for what is too small for these.
  EXPECT_LE(size_class_of(plan.domains[0], 2 << 20).trees.size(), 16U);
  EXPECT_GT(size_class_of(plan.domains[0], 4 << 20).trees.size(), 16U);
}

TEST_F(SizedPlan, AllClassesTogetherHaveAtMostTheTreesOfTheOptions) {
  options_.packing.max_trees = 12;
  const Plan plan = made(rack_network(4, 4, 2, 12.5e9, 15e9));
  EXPECT_GE(plan.domains[0].classes.size(), 2U);
  EXPECT_LE(distinct_trees(plan), 12U);
}

TEST_F(SizedPlan, TreesOfSeveralLevelsStartWhereEachGetsAPart) {
  options_.hop_seconds = 0;
  options_.packing.chunk = 4096;  // nearly no time to fill the pipeline
  options_.least_part = 1 << 20;
  const Plan plan = made(rack_network(2, 4, 1, 1e9, 1e9));
  const auto& classes = plan.domains[0].classes;
  ASSERT_GE(classes.size(), 2U);
  EXPECT_GE(*classes[0].max_bytes + 1, classes[1].trees.size() << 20);
}

TEST_F(SizedPlan, TheSameNetworkHasTheSamePlan) {
  const Network network = rack_network(3, 3, 1, 1e9, 1.5e9);
  const Plan one = made(network), other = made(network);
  ASSERT_EQ(one.domains[0].classes.size(), other.domains[0].classes.size());
  for (std::size_t i = 0; i < one.domains[0].classes.size(); ++i) {
    const auto& a = one.domains[0].classes[i].trees;
    const auto& b = other.domains[0].classes[i].trees;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t t = 0; t < a.size(); ++t) {
      EXPECT_EQ(a[t].up, b[t].up);
      EXPECT_EQ(a[t].weight, b[t].weight);
    }
  }
}

// A chain of six workers, which no star joins.
TEST_F(SizedPlan, WithoutStarsOtherTreesCarrySmallOperations) {
  Network chain = overlay_network(6, 0);
  for (VertexId id = 0; id + 1 < 6; ++id) join(chain, id, id + 1, 1e9);
  const Plan plan = made(chain);
  ASSERT_FALSE(report_.candidates.empty());
  EXPECT_GE(report_.candidates.front().levels, 2U);
  EXPECT_EQ(report_.candidates.front().time.smallest, 0U);
  options_.packing.solver = Solver::kWeights;
  made(chain);
}

TEST_F(SizedPlan, RefusesWhatHasNoPlan) {
  const Network network = rack_network(2, 2, 0, 1e9, 1e9);
  const auto plan = plan_by_size(network, {}, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message, "no worker: a plan needs at least one");
}

}  // namespace
}  // namespace tally::plan
