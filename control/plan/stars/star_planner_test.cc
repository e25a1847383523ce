#include "control/plan/stars/star_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// A star at every machine.
std::vector<Tree> all_stars(const std::vector<Vertex>& machines) {
  std::vector<VertexId> workers;
  for (VertexId id = 0; id < machines.size(); ++id) {
    if (machines[id].role == Role::kWorker) workers.push_back(id);
  }
  std::vector<Tree> trees;
  for (VertexId root = 0; root < machines.size(); ++root) {
    trees.push_back(Tree{0, star_parents(machines.size(), workers, root), {}});
  }
  return trees;
}

// What these shares take, by the loads of the network.
double tau_of(const std::vector<Vertex>& machines, const std::vector<double>& shares) {
  const Network network = star_network(machines);
  Routes routes(network);
  return evaluate(routes, all_stars(machines), shares).tau;
}

double tau_of_star(std::size_t workers, std::size_t helpers) {
  return star_shares(equal_machines(workers, helpers)).tau;
}

TEST(StarPlanner, EightWorkersAndUpToEightHelpers) {
  const std::vector<double> known = {1.75, 1.6, 1.4737, 1.3659, 1.2727, 1.1915, 1.12, 1.0566, 1.0};
  for (std::size_t k = 0; k < known.size(); ++k) {
    EXPECT_NEAR(tau_of_star(8, k), known[k], 5e-5) << k;
  }
}

TEST(StarPlanner, OtherKnownTimes) {
  EXPECT_NEAR(tau_of_star(3, 1), 1.2, 1e-12);
  EXPECT_NEAR(tau_of_star(3, 2), 1.0909, 5e-5);
  EXPECT_NEAR(tau_of_star(4, 1), 1.3333, 5e-5);
  EXPECT_NEAR(tau_of_star(4, 2), 1.2, 1e-12);
  EXPECT_NEAR(tau_of_star(5, 2), 1.2903, 5e-5);
}

TEST(StarPlanner, GainsOverAllReduce) {
  const auto gain = [](std::size_t n, std::size_t k) {
    return 2.0 * (static_cast<double>(n) - 1) / static_cast<double>(n) / tau_of_star(n, k);
  };
  EXPECT_NEAR(gain(8, 2), 1.1875, 1e-9);
  EXPECT_NEAR(gain(8, 4), 1.375, 1e-9);
  EXPECT_NEAR(gain(32, 8), 1.234, 5e-4);
  EXPECT_NEAR(gain(32, 16), 1.469, 5e-4);
  EXPECT_NEAR(gain(32, 32), 1.9375, 1e-9);
}

// BytePS's formulas, by hand: m_c = 2(n-1)/D, m_g = (n-k)/D, D = n^2 + kn - 2k.
TEST(StarPlanner, EqualNicsGiveThePaperSharesAndTheLoadsTheSameTime) {
  for (std::size_t n = 1; n <= 6; ++n) {
    for (std::size_t k = 0; k <= n + 1; ++k) {
      const auto machines = equal_machines(n, k);
      const StarShares star = star_shares(machines);
      const auto workers = static_cast<double>(n), helpers = static_cast<double>(k);
      const double d = workers * workers + helpers * workers - 2 * helpers;
      double tau = 2 * workers * (workers - 1) / d;
      double of_worker = (workers - helpers) / d, of_helper = 2 * (workers - 1) / d;
      if (k > n) tau = 1, of_worker = 0, of_helper = 1 / helpers;
      if (n == 1) tau = 0, of_worker = 1, of_helper = 0;
      EXPECT_NEAR(star.tau, tau, 1e-12) << n << " " << k;
      EXPECT_NEAR(tau_of(machines, star.shares), tau, 1e-12) << n << " " << k;
      EXPECT_NEAR(star.lower_bound, tau, 1e-12) << n << " " << k;
      EXPECT_NEAR(std::accumulate(star.shares.begin(), star.shares.end(), 0.0), 1, 1e-12);
      if (n == 2) continue;  // any split does
      EXPECT_NEAR(star.shares[0], of_worker, 1e-12) << n << " " << k;
      if (k > 0) {
        EXPECT_NEAR(star.shares.back(), of_helper, 1e-12) << n << " " << k;
      }
    }
  }
}

// Eight workers at 100 Gbit/s, eight helpers at 25: 1 Gb of gradient.
TEST(StarPlanner, UnevenSharesAreFasterOnUnevenNics) {
  auto machines = equal_machines(8, 8, 100e9);
  for (std::size_t i = 8; i < 16; ++i) machines[i].in = machines[i].out = 25e9;
  const StarShares star = star_shares(machines);
  EXPECT_NEAR(star.tau * 1e9, 0.01474, 5e-6);
  const double uniform = tau_of(machines, uniform_shares(machines).shares);
  EXPECT_NEAR(uniform * 1e9, 0.04, 1e-9);
  EXPECT_NEAR(uniform / star.tau, 2.71, 0.005);
}

TEST(StarPlanner, RandomUnevenStarsMeetTheLoadsAndTheBound) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 1000; ++trial) {
    const auto machines = random_machines(random);
    const StarShares star = star_shares(machines);
    const double tau = tau_of(machines, star.shares);
    ASSERT_NEAR(tau / star.tau, 1, 1e-6) << trial;
    ASSERT_NEAR(star.tau / star.lower_bound, 1, 1e-6) << trial;
    ASSERT_GE(tau, star.lower_bound * (1 - 1e-9)) << trial;
    ASSERT_GE(tau_of(machines, uniform_shares(machines).shares), star.tau * (1 - 1e-9)) << trial;
    for (const double share : star.shares) ASSERT_GE(share, 0);
  }
}

// No other shares of stars are better, also where directions differ and sums bind: moving a little
// from any star to any other never helps.
TEST(StarPlanner, NoOtherStarsAreFaster) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    auto machines = random_machines(random);
    for (Vertex& machine : machines) {
      if (random() % 3 == 0) machine.out = machine.in / 2;
      if (random() % 3 == 0) machine.sum = machine.in / static_cast<double>(1 + random() % 8);
    }
    const StarShares star = star_shares(machines);
    ASSERT_NEAR(tau_of(machines, star.shares) / star.tau, 1, 1e-6) << trial;
    ASSERT_GE(star.tau, star.lower_bound * (1 - 1e-9)) << trial;
    for (int move = 0; move < 50; ++move) {
      std::vector<double> other = star.shares;
      double& from = other[random() % other.size()];
      const double moved = from / static_cast<double>(2 + random() % 50);
      from -= moved;
      other[random() % other.size()] += moved;
      ASSERT_GE(tau_of(machines, other), star.tau * (1 - 1e-9)) << trial;
    }
  }
}

TEST(StarPlanner, ASlowSumIsLikeASlowNic) {
  auto machines = equal_machines(4, 2);
  machines[4].sum = machines[5].sum = 0.75;
  EXPECT_NEAR(star_shares(machines).tau, 1.263, 5e-4);
  EXPECT_NEAR(star_shares(machines).lower_bound, 1.2, 1e-9);  // trees reach it, stars do not
}

// Known values: best stars 1.5 and 1.333 (deeper trees: 1.2 and 1.0).
TEST(StarPlanner, NicsThatDifferByDirectionCountWithTheSlower) {
  auto machines = equal_machines(4, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    machines[i].out = i == 0 ? 1 : 2;
    machines[i].in = i == 0 ? 2 : 1;
  }
  EXPECT_NEAR(star_shares(machines).tau, 1.5, 1e-9);
  EXPECT_LE(star_shares(machines).lower_bound, 1.2);
  machines = equal_machines(4, 1);
  for (Vertex& machine : machines) machine.in = 2;
  EXPECT_NEAR(star_shares(machines).tau, 4.0 / 3, 1e-9);
  EXPECT_LE(star_shares(machines).lower_bound, 1.0);
}

TEST(StarPlanner, AnotherHelperIsNeverSlowerAndTwiceTheSpeedHalvesTheTime) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    auto machines = random_machines(random);
    const double tau = star_shares(machines).tau;
    auto faster = machines;
    for (Vertex& machine : faster) machine.in *= 2, machine.out *= 2;
    ASSERT_NEAR(star_shares(faster).tau, tau / 2, 1e-9 * tau);
    machines.push_back(machine(Role::kHelper, 1e9));
    ASSERT_LE(star_shares(machines).tau, tau * (1 + 1e-12));
  }
}

// Rounding moves each star by less than one unit of weight: each link by less than one for each of
// the trees that pass it, 2 for a star at the machine's switch.
TEST(StarPlanner, RoundingCostsLessThanItsBound) {
  std::mt19937_64 random(9);
  for (int trial = 0; trial < 300; ++trial) {
    const auto machines = random_machines(random);
    const StarShares star = star_shares(machines);
    const auto weights = round_weights(star.shares);
    ASSERT_EQ(std::accumulate(weights.begin(), weights.end(), 0U), kWeightUnit);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_LT(std::abs(weights[i] - star.shares[i] * kWeightUnit), 1 + 1e-9);
    }
    std::vector<double> rounded(weights.begin(), weights.end());
    for (double& share : rounded) share /= kWeightUnit;
    const Network network = star_network(machines);
    Routes routes(network);
    const auto trees = all_stars(machines);
    const ClassLoad exact = evaluate(routes, trees, star.shares);
    const ClassLoad whole = evaluate(routes, trees, rounded);
    // Of each link by all trees: their loads with a share of 1 for each.
    const ClassLoad all = evaluate(routes, trees, std::vector<double>(trees.size(), 1));
    for (std::size_t i = 0; i < network.links.size(); ++i) {
      const double crossings = all.loads[i].bytes;
      ASSERT_LE(std::abs(whole.loads[i].bytes - exact.loads[i].bytes),
                (crossings + 1e-6) / kWeightUnit);
    }
  }
}

TEST(StarPlanner, ThePlanPassesItsOwnValidator) {
  std::mt19937_64 random(13);
  for (int trial = 0; trial < 100; ++trial) {
    const auto machines = random_machines(random);
    const auto plan = plan_star(machines, {.chunk = 65536, .window = 32, .epoch = 4});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->epoch, 4u);
    EXPECT_EQ(plan->method, "star");
    const auto outcome = validate(*plan, {.max_height = 1});
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    ASSERT_NEAR(plan->domains[0].certificate->tau / star_shares(machines).tau, 1, 2e-3);
  }
}

TEST(StarPlanner, UnneededHelpersGetNoTree) {
  const auto alone = plan_star(equal_machines(1, 2, 1e9), {});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(alone->domains[0].classes[0].trees.size(), 1u);
  const auto servers = plan_star(equal_machines(4, 5, 1e9), {});
  ASSERT_TRUE(servers.ok()) << servers.error().message;
  EXPECT_EQ(servers->domains[0].classes[0].trees.size(), 5u);  // no worker's
}

TEST(StarPlanner, RefusesMachinesThatItCannotPlanFor) {
  const auto message = [](std::vector<Vertex> machines) {
    const auto plan = plan_star(std::move(machines), {});
    return plan ? "" : plan.error().message;
  };
  EXPECT_EQ(message({}), "no worker: a plan needs at least one");
  EXPECT_EQ(message(equal_machines(0, 3, 1e9)), "no worker: a plan needs at least one");
  EXPECT_EQ(message(equal_machines(2, 0, 0.5)),
            "nodes[0].in = 0.5: must be from 1 to 1e+15 bytes per second");
  EXPECT_EQ(message(equal_machines(kMaxStarMachines, 1, 1e9)),
            "1025 machines: the star planner takes at most 1024, it makes a tree for each; leave "
            "out helpers");
  EXPECT_EQ(message({machine(Role::kSwitch, 0)}),
            "the star planner takes workers and helpers; it adds the switch itself");
}

TEST(RoundWeights, GivesTheLargestRemaindersOneMore) {
  EXPECT_EQ(round_weights(std::vector<double>{1}), (std::vector<std::uint32_t>{65536}));
  EXPECT_EQ(round_weights(std::vector<double>(3, 1.0 / 3)),
            (std::vector<std::uint32_t>{21846, 21845, 21845}));
  EXPECT_EQ(round_weights(std::vector<double>{0.0, 0.5, 0.5}),
            (std::vector<std::uint32_t>{0, 32768, 32768}));
}

}  // namespace
}  // namespace tally::plan
