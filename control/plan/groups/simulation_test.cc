// The predictions against a run of the exchanges, event by event.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "control/plan/groups/planner.h"

namespace tally::plan::groups {
namespace {

struct Simulated {
  double samples_per_second = 0;
  double mean_staleness = 0;
  std::map<int, int> histogram;  // exchanges, by the number that overtook them
  double loss = 0;               // of the model at the end
};

// Each group exchanges once in 1 / rate seconds. A quadratic of one dimension stands for the model:
// each exchange subtracts its gradient at the value of the group's exchange before.
Simulated simulate(const GroupPlan& plan, int exchanges, double learning_rate) {
  struct State {
    double next = 0;
    int version = 0;  // exchanges of all groups when it last exchanged
    double value = 1;
  };
  std::vector<State> states(plan.groups.size());
  for (std::size_t g = 0; g < states.size(); ++g) states[g].next = 1 / plan.groups[g].rate;
  Simulated run;
  double model = 1, samples = 0, now = 0, overtaken = 0;
  for (int done = 0; done < exchanges; ++done) {
    std::size_t first = 0;
    for (std::size_t g = 1; g < states.size(); ++g) {
      if (states[g].next < states[first].next) first = g;
    }
    State& state = states[first];
    const Group& group = plan.groups[first];
    now = state.next;
    const int staleness = done - state.version;
    ++run.histogram[staleness];
    overtaken += staleness;
    model -= learning_rate * group.learning_rate * state.value;
    state = {now + 1 / group.rate, done + 1, model};
    samples += static_cast<double>(group.workers.size()) * group.local_steps;
  }
  run.samples_per_second = samples / now;
  run.mean_staleness = overtaken / exchanges;
  run.loss = model * model;
  return run;
}

Problem mixed_workers() {
  Problem problem{.bytes = 1, .nic = 4, .server = 3};
  for (const double step : {1.0, 1.1, 1.2, 1.3, 2.0, 2.1, 3.0, 3.3}) {
    problem.workers.push_back({"", step});
  }
  return problem;
}

TEST(GroupSimulation, MeasuresThePredictedThroughputAndStaleness) {
  for (const std::uint32_t staleness : {2u, 4u, 16u}) {
    const auto plan = plan_groups(mixed_workers(), {.staleness = staleness});
    ASSERT_TRUE(plan.ok());
    ASSERT_GT(plan->groups.size(), 1u);
    const Simulated run = simulate(*plan, 20000, 0);
    EXPECT_NEAR(run.samples_per_second, plan->throughput, 0.01 * plan->throughput);
    // The mean over exchanges is the number of the other groups.
    EXPECT_NEAR(run.mean_staleness, static_cast<double>(plan->groups.size()) - 1, 0.01);
    // The bound holds for the mean of a group. A single exchange may have one more for each other
    // group.
    EXPECT_LE(run.histogram.rbegin()->first, static_cast<int>(staleness + plan->groups.size()));
  }
}

TEST(GroupSimulation, TheGainGrowsWithTheRatioOfSpeeds) {
  double before = 0;
  for (const double ratio : {1.0, 1.5, 2.0, 3.0, 4.0}) {
    Problem problem{.bytes = 1, .nic = 8, .server = 4};
    for (int i = 0; i < 8; ++i) problem.workers.push_back({"", i < 4 ? 1 : ratio});
    const auto plan = plan_groups(problem, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_DOUBLE_EQ(plan->sync_idle, 1 - (1 + ratio) / 2 / ratio);
    const Simulated run = simulate(*plan, 20000, 0);
    const double gain = run.samples_per_second / plan->sync_throughput;
    EXPECT_GE(gain, before * 0.999) << ratio;
    EXPECT_NEAR(gain, plan->most_speedup(), 0.01 * gain) << ratio;
    before = gain;
  }
  EXPECT_GT(before, 2);
}

TEST(GroupSimulation, BoundedStalenessConvergesLikeSynchronousTraining) {
  const auto plan = plan_groups(mixed_workers(), {.staleness = 4});
  ASSERT_TRUE(plan.ok());
  // Small against 1 / (staleness * the largest group).
  const Simulated run = simulate(*plan, 5000, 0.005);
  EXPECT_LT(run.loss, 1e-6);
}

}  // namespace
}  // namespace tally::plan::groups
