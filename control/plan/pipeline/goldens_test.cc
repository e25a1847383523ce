// Instances whose best divisions are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/pipeline/planner.h"
#include "tests/support/control/test_pipelines.h"

namespace tally::plan::pipeline {
namespace {

using ::testing::ElementsAre;

// Four blocks with large outputs, as of convolutions, and two with large weights.
Profile tapering_blocks() {
  Profile profile{{"gpu"}, {}};
  const double forward[] = {1, 1, 1, 1, .3, .3}, output[] = {64, 32, 16, 8, .5, .1},
               weights[] = {.5, 1, 2, 4, 64, 16};
  for (int i = 0; i < 6; ++i) {
    profile.blocks.push_back({.times = {{forward[i], 2 * forward[i]}},
                              .output = output[i],
                              .stash = output[i],
                              .weights = weights[i]});
  }
  return profile;
}

Partition planned(const Instance& instance) {
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  const auto cuts = least_bottleneck(costs, kUnlimited);
  if (!cuts) return {.bottleneck = kUnlimited};
  return *evaluate(costs, *cuts);
}

double data_parallel(const Instance& instance) {
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  return evaluate(costs, {{costs.blocks(), costs.gpus()}})->bottleneck;
}

std::vector<std::size_t> sizes(const Partition& partition) {
  std::vector<std::size_t> found;
  for (const Stage& stage : partition.stages) found.push_back(stage.end_block - stage.first_block);
  return found;
}

std::vector<std::size_t> replicas(const Partition& partition) {
  std::vector<std::size_t> found;
  for (const Stage& stage : partition.stages) found.push_back(stage.gpus.size());
  return found;
}

TEST(PipelineGoldens, EqualBlocksMakeEqualStages) {
  Block block{.times = {{1, 2}}, .weights = 1};
  const Instance instance{equal_blocks(8, block), equal_gpus(4, 1), {}};
  const Partition plan = planned(instance);
  EXPECT_DOUBLE_EQ(plan.bottleneck, 6);
  EXPECT_THAT(sizes(plan), ElementsAre(2, 2, 2, 2));
}

TEST(PipelineGoldens, TaperingBlocksOnSlowLinksSplitBeforeTheLargeWeights) {
  const Instance instance{tapering_blocks(), equal_gpus(4, 1), {}};
  const Partition plan = planned(instance);
  EXPECT_DOUBLE_EQ(plan.bottleneck, 8);
  EXPECT_THAT(sizes(plan), ElementsAre(4, 2));
  EXPECT_THAT(replicas(plan), ElementsAre(3, 1));
  EXPECT_NEAR(data_parallel(instance), 36.2625, 1e-9);
}

TEST(PipelineGoldens, TaperingBlocksOnFasterLinksSplitEarlier) {
  const Instance instance{tapering_blocks(), equal_gpus(4, 4), {}};
  const Partition plan = planned(instance);
  EXPECT_NEAR(plan.bottleneck, 4.8, 1e-9);
  EXPECT_THAT(sizes(plan), ElementsAre(3, 3));
  EXPECT_THAT(replicas(plan), ElementsAre(3, 1));
  EXPECT_NEAR(data_parallel(instance) / plan.bottleneck, 2.43, 0.005);
}

TEST(PipelineGoldens, TaperingBlocksOnFastLinksAreDataParallel) {
  const Instance instance{tapering_blocks(), equal_gpus(4, 64), {}};
  const Partition plan = planned(instance);
  EXPECT_NEAR(plan.bottleneck, 3.9627, 5e-5);
  EXPECT_THAT(replicas(plan), ElementsAre(4));
  EXPECT_DOUBLE_EQ(plan.bottleneck, data_parallel(instance));
}

TEST(PipelineGoldens, StagesStayInsideServers) {
  const Instance instance{tapering_blocks(), two_servers(16, 1), {}};
  const Partition plan = planned(instance);
  EXPECT_DOUBLE_EQ(plan.bottleneck, 6.234375);
  EXPECT_THAT(sizes(plan), ElementsAre(4, 2));
  EXPECT_THAT(plan.stages[0].gpus, ElementsAre(0, 1));
  EXPECT_THAT(plan.stages[1].gpus, ElementsAre(2, 3));
  EXPECT_NEAR(data_parallel(instance) / plan.bottleneck, 5.8, 0.05);
}

// L = 4 blocks of 6 seconds on 2 GPUs; with stashes of 5 bytes, memory decides.
Instance with_memory(std::size_t blocks, std::size_t gpus, double memory) {
  const Block block{.times = {{2, 4}}, .output = 1, .stash = 5, .weights = 1};
  Instance instance{equal_blocks(blocks, block), equal_gpus(gpus, 1e6), {.copies = 2}};
  for (Gpu& gpu : instance.cluster.gpus) gpu.memory = memory;
  return instance;
}

TEST(PipelineGoldens, ScarceMemoryCostsRecomputation) {
  EXPECT_DOUBLE_EQ(planned(with_memory(4, 2, 26)).bottleneck, 12);
  EXPECT_DOUBLE_EQ(planned(with_memory(4, 2, 22)).bottleneck, 14);
  EXPECT_THAT(planned(with_memory(4, 2, 22)).stages[0].recompute, ElementsAre(0));
  EXPECT_EQ(planned(with_memory(4, 2, 12)).bottleneck, kUnlimited);
}

TEST(PipelineGoldens, EarlyStagesOfALongerPipelineNeedMoreMemory) {
  const Partition whole = planned(with_memory(6, 3, 36));
  EXPECT_DOUBLE_EQ(whole.bottleneck, 12);
  EXPECT_EQ(whole.stages[0].memory, 36);
  EXPECT_EQ(whole.stages[1].memory, 26);
  EXPECT_EQ(whole.stages[2].memory, 16);
  EXPECT_THAT(std::vector<std::size_t>({whole.stages[0].in_flight, whole.stages[1].in_flight,
                                        whole.stages[2].in_flight}),
              ElementsAre(3, 2, 1));
  for (double memory = 18; memory <= 25; ++memory) {
    EXPECT_DOUBLE_EQ(planned(with_memory(6, 3, memory)).bottleneck, 16) << memory;
  }
}

// Servers {0, 1} and {2, 3}, one with GPUs of twice the speed.
Instance uneven_servers(double first, double second) {
  Instance instance{tapering_blocks(), two_servers(16, 1), {}};
  for (std::size_t i = 0; i < 4; ++i) instance.cluster.gpus[i].speed = i < 2 ? first : second;
  return instance;
}

TEST(PipelineGoldens, TheOrderOfTheGpusDecides) {
  const Partition fast_first = planned(uneven_servers(2, 1));
  EXPECT_NEAR(fast_first.bottleneck, 3.45, 1e-9);
  EXPECT_THAT(sizes(fast_first), ElementsAre(2, 3, 1));
  EXPECT_THAT(replicas(fast_first), ElementsAre(1, 1, 2));
  EXPECT_NEAR(planned(uneven_servers(1, 2)).bottleneck, 6.234375, 1e-9);
}

TEST(PipelineGoldens, ThePlannerFindsTheBestOrder) {
  const Instance instance = uneven_servers(1, 2);
  const auto plan = plan_pipeline(instance.profile, instance.cluster, instance.options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NEAR(plan->partition.bottleneck, 3.45, 1e-9);
  EXPECT_THAT(plan->partition.order, ElementsAre(2, 3, 0, 1));
  EXPECT_TRUE(plan->is_exhaustive);
  EXPECT_EQ(plan->orders_tried, 2u);
}

}  // namespace
}  // namespace tally::plan::pipeline
