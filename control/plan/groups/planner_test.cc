#include "control/plan/groups/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "control/plan/groups/throttle.h"
#include "tests/support/tier.h"

namespace tally::plan::groups {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

Problem problem_of(const std::vector<double>& steps, double bytes, double nic, double server) {
  Problem problem{.bytes = bytes, .nic = nic, .server = server};
  for (const double step : steps) problem.workers.push_back({"", step});
  return problem;
}

// Four fast workers and four slow ones; the gradient takes a quarter of a second over a NIC.
Problem golden(double server) {
  return problem_of({1, 1, 1, 1, 2, 2, 2, 2}, 1, 4, server);
}

GroupPlan planned(const Problem& problem, const Limits& limits = {}) {
  auto plan = plan_groups(problem, limits);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(plan).value();
}

std::vector<std::size_t> sizes(const GroupPlan& plan) {
  std::vector<std::size_t> found;
  for (const Group& group : plan.groups) found.push_back(group.workers.size());
  return found;
}

TEST(GroupGoldens, ASlowServerKeepsTheWorkersSynchronous) {
  const GroupPlan plan = planned(golden(0.5));
  EXPECT_NEAR(plan.throughput, 3.2821, 5e-5);
  EXPECT_NEAR(plan.sync_throughput, 3.2821, 5e-5);
  EXPECT_THAT(sizes(plan), ElementsAre(8));
  EXPECT_EQ(plan.server_load, 0);
  EXPECT_DOUBLE_EQ(plan.sync_idle, 0.25);
}

TEST(GroupGoldens, ALargeBoundOfTheServerAllowsSmallGroups) {
  const GroupPlan plan = planned(golden(4));
  EXPECT_NEAR(plan.throughput, 4.8, 1e-9);
  EXPECT_THAT(sizes(plan), ElementsAre(1, 1, 1, 1, 2, 2));
  EXPECT_NEAR(plan.server_load, 1, 1e-9);
}

TEST(GroupGoldens, TwoGroupsByTheRates) {
  // Of four and four workers, by hand: periods 1 + .375 + .25 and 2 + .375 + .25.
  const std::vector<Exchange> two = {{1.625, 4}, {2.625, 4}};
  EXPECT_NEAR(throttle(two, 1, kUnbounded)->throughput, 3.9853, 5e-5);
  EXPECT_NEAR(throttle(two, 0.5, kUnbounded)->throughput, 2.0, 1e-9);
  // The planner finds them where the staleness allows at most three groups.
  const GroupPlan plan = planned(golden(1), {.staleness = 2});
  EXPECT_NEAR(plan.throughput, 3.9853, 5e-5);
  EXPECT_THAT(sizes(plan), ElementsAre(4, 4));
}

TEST(Groups, WithoutStalenessTheyTrainSynchronously) {
  const GroupPlan plan = planned(golden(100), {.staleness = 0});
  EXPECT_THAT(sizes(plan), ElementsAre(8));
  EXPECT_DOUBLE_EQ(plan.most_speedup(), 1);
  EXPECT_DOUBLE_EQ(plan.least_speedup(), 1);
}

TEST(Groups, OneGroupIsASynchronousAllReduce) {
  // N b / (slowest step + sum)
  const Problem problem = problem_of({1, 2, 3}, 6, 8, 1e-6);
  EXPECT_DOUBLE_EQ(planned(problem).throughput, 3 / (3 + 2 * 2.0 / 3 * 6 / 8));
}

TEST(Groups, SingleWorkersAreBoundByTheServer) {
  Problem problem = problem_of({1, 1, 1, 1, 1, 1}, 1, 1e6, 2);
  problem.batch = 3;
  const GroupPlan plan = planned(problem);
  // b * server / bytes
  EXPECT_NEAR(plan.parameter_server_throughput, 3 * 2, 1e-9);
}

// Calls visit(groups) with each set partition.
template <typename Visit>
void each_grouping(std::size_t workers, std::size_t next,
                   std::vector<std::vector<std::size_t>>& groups, Visit visit) {
  if (next == workers) {
    visit(groups);
    return;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].push_back(next);
    each_grouping(workers, next + 1, groups, visit);
    groups[g].pop_back();
  }
  groups.push_back({next});
  each_grouping(workers, next + 1, groups, visit);
  groups.pop_back();
}

double naive_throughput(const Problem& problem, double staleness,
                        const std::vector<std::vector<std::size_t>>& groups) {
  std::vector<Exchange> exchanges;
  for (const auto& group : groups) {
    const auto n = static_cast<double>(group.size());
    double slowest = 0;
    for (const std::size_t worker : group) {
      slowest = std::max(slowest, problem.workers[worker].step);
    }
    double period = slowest + 2 * (n - 1) / n * problem.bytes / problem.nic;
    if (groups.size() > 1) period += problem.bytes / problem.nic;
    exchanges.push_back({period, n * problem.batch});
  }
  if (groups.size() == 1) return exchanges[0].samples / exchanges[0].period;
  const auto rates = throttle(exchanges, problem.server / problem.bytes, staleness);
  return rates ? rates->throughput : 0;
}

Problem random_problem(std::mt19937& random, std::size_t workers) {
  Problem problem;
  for (std::size_t i = 0; i < workers; ++i) {
    problem.workers.push_back({"", 0.5 + static_cast<double>(random() % 64) / 16});
  }
  problem.bytes = 1 + static_cast<double>(random() % 16);
  problem.nic = problem.bytes * (0.5 + static_cast<double>(random() % 8));
  problem.server = problem.bytes * (0.25 + static_cast<double>(random() % 16) / 4);
  return problem;
}

TEST(Groups, EqualTheSearchOfAllSetPartitions) {
  std::mt19937 random(1);
  const int rounds = testing::test_tier() == "soak" ? 10000 : 1000;
  int divided = 0;
  for (int round = 0; round < rounds; ++round) {
    const Problem problem = random_problem(random, 1 + random() % 7);
    Limits limits;
    if (random() % 3 != 0) limits.staleness = random() % 8;
    const double staleness = limits.staleness ? *limits.staleness : kUnbounded;
    double best = 0;
    std::vector<std::vector<std::size_t>> groups;
    each_grouping(problem.workers.size(), 0, groups, [&](const auto& grouping) {
      best = std::max(best, naive_throughput(problem, staleness, grouping));
    });
    const GroupPlan plan = planned(problem, limits);
    EXPECT_NEAR(plan.throughput, best, 1e-9 * best) << round;
    if (plan.groups.size() > 1) ++divided;
  }
  EXPECT_GT(divided, rounds / 10);
}

TEST(Groups, TheSearchForManyWorkersComesCloseToTheBest) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const Problem problem = random_problem(random, 8 + random() % 3);
    Limits limits;
    if (random() % 3 != 0) limits.staleness = 1 + random() % 8;
    const double best = planned(problem, limits).throughput;
    limits.enumerated = 0;
    const double found = planned(problem, limits).throughput;
    EXPECT_LE(found, best * (1 + 1e-9)) << round;
    EXPECT_GE(found, best * 0.99) << round;
  }
}

TEST(Groups, KeepTheLimits) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const Problem problem = random_problem(random, 2 + random() % 9);
    Limits limits;
    limits.staleness = 1 + random() % 6;
    limits.local_steps = static_cast<std::uint32_t>(1 + random() % 8);
    const GroupPlan plan = planned(problem, limits);
    double rates = 0;
    std::size_t workers = 0;
    for (const Group& group : plan.groups) {
      rates += group.rate;
      workers += group.workers.size();
      EXPECT_LE(group.rate, 1 / group.period * (1 + 1e-9));
      EXPECT_LE(group.staleness, *limits.staleness * (1 + 1e-9));
      EXPECT_LE(group.local_steps, limits.local_steps);
      EXPECT_EQ(group.learning_rate, static_cast<double>(group.workers.size()) * group.local_steps);
    }
    EXPECT_EQ(workers, problem.workers.size());
    EXPECT_LE(plan.server_load, 1 + 1e-9);
    if (plan.groups.size() > 1) {
      EXPECT_LE(rates * problem.bytes, problem.server * (1 + 1e-9));
    }
  }
}

TEST(Groups, LocalStepsRelieveTheServer) {
  const GroupPlan one = planned(golden(0.5), {.staleness = 3});
  const GroupPlan several = planned(golden(0.5), {.staleness = 3, .local_steps = 4});
  EXPECT_EQ(one.groups.size(), 1u);
  EXPECT_GT(several.groups.size(), 1u);
  EXPECT_GT(several.throughput, one.throughput);
  EXPECT_LE(several.server_load, 1 + 1e-9);
  // With one step less in the group that exchanges most, the server could not keep up.
  double rates = 0, shortest = kUnbounded;
  for (const Group& group : several.groups) rates += 1 / group.period;
  for (const Group& group : several.groups) shortest = std::min(shortest, group.period);
  EXPECT_LE(rates, 0.5 * (1 + 1e-9));
}

TEST(Groups, MoreSpeedOfTheServerOrStalenessNeverHurts) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Problem problem = random_problem(random, 2 + random() % 6);
    Limits limits{.staleness = random() % 6};
    const double before = planned(problem, limits).throughput;
    ++*limits.staleness;
    const double fresher = planned(problem, limits).throughput;
    EXPECT_GE(fresher, before * (1 - 1e-9)) << round;
    problem.server *= 2;
    EXPECT_GE(planned(problem, limits).throughput, fresher * (1 - 1e-9)) << round;
  }
}

TEST(Groups, PlansTheMostWorkers) {
  std::mt19937 random(5);
  const Problem problem = random_problem(random, kMaxWorkers);
  const GroupPlan plan = planned(problem, {.staleness = 8, .local_steps = 4});
  EXPECT_GE(plan.throughput, plan.sync_throughput);
}

TEST(Groups, RefusesValuesOutOfRange) {
  const auto refusal = [](const Problem& problem, const Limits& limits = {}) {
    const auto plan = plan_groups(problem, limits);
    return plan ? "" : plan.error().message;
  };
  EXPECT_THAT(refusal(problem_of({}, 1, 1, 1)), HasSubstr("0 workers: must be 1 to 128"));
  EXPECT_THAT(refusal(problem_of({1, 0}, 1, 1, 1)), HasSubstr("workers[1].step = 0: must be"));
  EXPECT_THAT(refusal(problem_of({1}, -1, 1, 1)), HasSubstr("bytes = -1"));
  EXPECT_THAT(refusal(problem_of({1}, 1, 0, 1)), HasSubstr("nic = 0"));
  EXPECT_THAT(refusal(problem_of({1}, 1, 1, kUnbounded)), HasSubstr("server = inf"));
  EXPECT_THAT(refusal(golden(1), {.local_steps = 0}), HasSubstr("local steps = 0"));
  EXPECT_THAT(refusal(golden(1), {.staleness = 2'000'000}), HasSubstr("staleness = 2000000"));
}

}  // namespace
}  // namespace tally::plan::groups
