#include "control/plan/pipeline/iteration.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_pipelines.h"

namespace tally::plan::pipeline {
namespace {

double best_iteration(const Instance& instance) {
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  const auto cuts = least_iteration(costs, kUnlimited);
  EXPECT_TRUE(cuts.ok());
  if (!cuts.ok() || !*cuts) return kUnlimited;
  return evaluate(costs, **cuts)->iteration;
}

TEST(Iteration, EqualsTheSearchOfAllDivisions) {
  RandomInstances random(11);
  for (int i = 0; i < 1000; ++i) {
    Instance instance = random.next();
    instance.options.objective = Objective::kIteration;
    instance.options.gap = 0;
    const double expected = naive_best(instance, in_order(instance.cluster));
    const double found = best_iteration(instance);
    if (expected == kUnlimited) {
      EXPECT_EQ(found, kUnlimited) << i;
    } else {
      EXPECT_NEAR(found, expected, 1e-9 * expected) << i;
    }
  }
}

TEST(Iteration, EqualsTheSearchOfAllDivisionsIntoPairs) {
  RandomInstances random(13);
  for (int i = 0; i < 300; ++i) {
    Instance instance = random.next();
    if (instance.cluster.gpus.size() % 2 != 0) continue;
    instance.options.objective = Objective::kIteration;
    instance.options.gap = 0;
    instance.options.replicas = 2;
    const double expected = naive_best(instance, in_order(instance.cluster));
    const double found = best_iteration(instance);
    if (expected == kUnlimited) {
      EXPECT_EQ(found, kUnlimited) << i;
    } else {
      EXPECT_NEAR(found, expected, 1e-9 * expected) << i;
    }
  }
}

TEST(Iteration, StaysWithinTheGap) {
  RandomInstances random(12);
  for (int i = 0; i < 300; ++i) {
    Instance instance = random.next();
    instance.options.objective = Objective::kIteration;
    instance.options.gap = 0.2;
    const double expected = naive_best(instance, in_order(instance.cluster));
    const double found = best_iteration(instance);
    if (expected == kUnlimited) continue;
    EXPECT_GE(found, expected * (1 - 1e-9)) << i;
    EXPECT_LE(found, expected * 1.2) << i;
  }
}

TEST(Iteration, OneMicrobatchIsBestOnFewStages) {
  // With one microbatch, a pipeline has nothing to overlap, and replicas share it.
  Instance instance{equal_blocks(8, {.times = {{1, 2}}}),
                    equal_gpus(4, 1e6),
                    {.objective = Objective::kIteration}};
  EXPECT_NEAR(best_iteration(instance), 6, 1e-6);
}

TEST(Iteration, RefusesMoreStagesThanItKeeps) {
  const Instance instance{equal_blocks(256, {.times = {{1, 2}}}),
                          equal_gpus(16, 1),
                          {.objective = Objective::kIteration}};
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  const auto cuts = least_iteration(costs, kUnlimited);
  ASSERT_FALSE(cuts.ok());
  EXPECT_NE(cuts.error().message.find("256 blocks on 16 GPUs"), std::string::npos);
}

}  // namespace
}  // namespace tally::plan::pipeline
