#include "control/plan/pipeline/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/test_pipelines.h"
#include "tests/support/tier.h"

namespace tally::plan::pipeline {
namespace {

int instances() {
  return testing::test_tier() == "soak" ? 20000 : 1000;
}

double best_time(const Instance& instance) {
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  const auto cuts = least_bottleneck(costs, kUnlimited);
  if (!cuts) return kUnlimited;
  return evaluate(costs, *cuts)->bottleneck;
}

void expect_same(double found, double expected, int instance) {
  if (expected == kUnlimited) {
    EXPECT_EQ(found, kUnlimited) << "instance " << instance;
  } else {
    EXPECT_NEAR(found, expected, 1e-9 * expected) << "instance " << instance;
  }
}

TEST(Partition, EqualsTheSearchOfAllDivisions) {
  RandomInstances random(1);
  int impossible = 0;
  for (int i = 0; i < instances(); ++i) {
    const Instance instance = random.next();
    const double expected = naive_best(instance, in_order(instance.cluster));
    expect_same(best_time(instance), expected, i);
    if (expected == kUnlimited) ++impossible;
  }
  EXPECT_GT(impossible, 0);
  EXPECT_LT(impossible, instances() / 2);
}

TEST(Partition, EqualsTheSearchOfAllDivisionsIntoEqualReplicas) {
  RandomInstances random(8);
  int possible = 0;
  for (int i = 0; i < instances(); ++i) {
    Instance instance = random.next();
    const auto gpus = static_cast<std::uint32_t>(instance.cluster.gpus.size());
    do {
      instance.options.replicas = 1 + random.pick(gpus);
    } while (gpus % instance.options.replicas != 0);
    const double expected = naive_best(instance, in_order(instance.cluster));
    expect_same(best_time(instance), expected, i);
    if (expected < kUnlimited) ++possible;
  }
  EXPECT_GT(possible, instances() / 4);
}

TEST(Partition, ALimitLeavesOnlyFasterDivisions) {
  RandomInstances random(2);
  for (int i = 0; i < 200; ++i) {
    const Instance instance = random.next();
    const double best = best_time(instance);
    if (best == kUnlimited) continue;
    const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                           instance.options);
    EXPECT_FALSE(least_bottleneck(costs, best * (1 - 1e-9)).has_value()) << i;
    const auto again = least_bottleneck(costs, best * (1 + 1e-9));
    ASSERT_TRUE(again.has_value()) << i;
    EXPECT_EQ(evaluate(costs, *again)->bottleneck, best) << i;
  }
}

TEST(Partition, MoreBandwidthNeverHurts) {
  RandomInstances random(3);
  for (int i = 0; i < instances(); ++i) {
    Instance instance = random.next();
    const double before = best_time(instance);
    instance.cluster
        .bandwidth[random.pick(static_cast<std::uint32_t>(instance.cluster.bandwidth.size()))] *= 2;
    EXPECT_LE(best_time(instance), before) << i;
  }
}

TEST(Partition, MoreMemoryNeverHurts) {
  RandomInstances random(4);
  for (int i = 0; i < instances(); ++i) {
    Instance instance = random.next();
    const double before = best_time(instance);
    instance.cluster.gpus[random.pick(static_cast<std::uint32_t>(instance.cluster.gpus.size()))]
        .memory *= 1.5;
    EXPECT_LE(best_time(instance), before * (1 + 1e-12)) << i;
  }
}

// With overlap, a faster GPU has a shorter backward pass, which hides less of the sum.
TEST(Partition, MoreSpeedNeverHurtsWithoutOverlap) {
  RandomInstances random(5);
  for (int i = 0; i < instances(); ++i) {
    Instance instance = random.next();
    instance.options.overlap = false;
    const double before = best_time(instance);
    instance.cluster.gpus[random.pick(static_cast<std::uint32_t>(instance.cluster.gpus.size()))]
        .speed *= 2;
    EXPECT_LE(best_time(instance), before * (1 + 1e-12)) << i;
  }
}

TEST(Partition, StaysWithinItsBounds) {
  RandomInstances random(6);
  for (int i = 0; i < instances(); ++i) {
    const Instance instance = random.next();
    const double best = best_time(instance);
    double work = 0, speed = 0;
    for (const Block& block : instance.profile.blocks) {
      work += block.times[0].forward + block.times[0].backward;
    }
    for (const Gpu& gpu : instance.cluster.gpus) speed += gpu.speed;
    EXPECT_GE(best * (1 + 1e-12), work / speed) << i;

    const std::size_t blocks = instance.profile.blocks.size(), gpus = instance.cluster.gpus.size();
    const std::vector<std::size_t> order = in_order(instance.cluster);
    EXPECT_LE(best, naive_time(instance, order, {{blocks, gpus}}) * (1 + 1e-12)) << i;
    if (blocks < gpus) continue;
    std::vector<Cut> straight;
    for (std::size_t s = 1; s <= gpus; ++s) straight.push_back({s == gpus ? blocks : s, s});
    EXPECT_LE(best, naive_time(instance, order, straight) * (1 + 1e-12)) << i;
  }
}

TEST(Partition, BalancingLowersMemoryAtTheSameBottleneck) {
  RandomInstances random(7);
  int lower = 0;
  for (int i = 0; i < instances(); ++i) {
    const Instance instance = random.next();
    const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                           instance.options);
    const auto cuts = least_bottleneck(costs, kUnlimited);
    if (!cuts) continue;
    const Partition before = *evaluate(costs, *cuts);
    Partition after = before;
    balance_memory(costs, after);
    EXPECT_EQ(after.bottleneck, before.bottleneck);
    for (std::size_t s = 0; s < after.stages.size(); ++s) {
      EXPECT_LE(after.stages[s].memory, before.stages[s].memory) << i;
      EXPECT_LE(after.stages[s].time, before.bottleneck) << i;
      if (after.stages[s].memory < before.stages[s].memory) ++lower;
    }
  }
  EXPECT_GT(lower, 0);
}

TEST(Partition, GpuTypesHaveTimesOfTheirOwn) {
  // The first type is fast at the first block, the second at the second.
  Instance instance{{{"a", "b"}, {}}, equal_gpus(2, 1e6), {}};
  instance.profile.blocks = {{.times = {{1, 2}, {10, 20}}}, {.times = {{10, 20}, {1, 2}}}};
  instance.cluster.gpus[1].type = 1;
  EXPECT_DOUBLE_EQ(best_time(instance), 3);
  // Both replicate both blocks: 33 seconds each, and half as long together.
  instance.profile.blocks = {{.times = {{11, 22}, {11, 22}}}};
  EXPECT_DOUBLE_EQ(best_time(instance), 16.5);
}

TEST(Partition, MixedTypesInAStageTakeTheirSharesOfTheMicrobatches) {
  Instance instance{{{"a", "b"}, {}}, equal_gpus(2, 1e6), {}};
  instance.profile.blocks = {{.times = {{1, 2}, {2, 4}}}};
  instance.cluster.gpus[1].type = 1;
  EXPECT_DOUBLE_EQ(best_time(instance), 2);  // 1/3 + 1/6 microbatches per second
  instance.options.dispatch = Dispatch::kRoundRobin;
  EXPECT_DOUBLE_EQ(best_time(instance), 3);
}

TEST(Partition, AGivenSyncTimeReplacesTheRing) {
  Instance instance{equal_blocks(1, {.times = {{1, 2}}, .weights = 4}), equal_gpus(2, 1), {}};
  EXPECT_DOUBLE_EQ(best_time(instance), 1.5 + 4 * 1.0 / 2);
  instance.options.sync_time = [](std::span<const std::size_t> gpus) {
    return 0.25 * static_cast<double>(gpus.size());
  };
  EXPECT_DOUBLE_EQ(best_time(instance), 1.5 + 4 * 0.5 / 2);
}

TEST(Partition, PredictsTheIterationOfOneForwardOneBackward) {
  // Two stages of 3 and 4 seconds, a transfer of 1, and a sum of gradients of 2.
  const std::vector<Stage> stages = {{.compute = 3, .sync = 2, .transfer = 1}, {.compute = 4}};
  EXPECT_DOUBLE_EQ(iteration_time(stages, 1), 3 + 1 + 4 + 2);
  EXPECT_DOUBLE_EQ(iteration_time(stages, 8), 3 + 1 + 4 + 7 * 4 + 2);
}

}  // namespace
}  // namespace tally::plan::pipeline
