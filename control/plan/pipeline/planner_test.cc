#include "control/plan/pipeline/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/control/test_pipelines.h"

namespace tally::plan::pipeline {
namespace {

using ::testing::HasSubstr;

Instance small() {
  return {equal_blocks(4, {.times = {{1, 2}}, .output = 1, .stash = 5, .weights = 1}),
          equal_gpus(2, 1),
          {}};
}

std::string refusal(const Instance& instance) {
  const auto plan = plan_pipeline(instance.profile, instance.cluster, instance.options);
  return plan ? "" : plan.error().message;
}

TEST(PipelinePlanner, EachBlockAndGpuIsInOneStage) {
  RandomInstances random(31);
  for (int i = 0; i < 200; ++i) {
    const Instance instance = random.next();
    const auto plan = plan_pipeline(instance.profile, instance.cluster, instance.options);
    if (!plan) continue;
    std::size_t block = 0;
    std::vector<std::size_t> gpus;
    for (const Stage& stage : plan->partition.stages) {
      EXPECT_EQ(stage.first_block, block);
      EXPECT_GT(stage.end_block, block);
      block = stage.end_block;
      gpus.insert(gpus.end(), stage.gpus.begin(), stage.gpus.end());
      for (const std::size_t recomputed : stage.recompute) {
        EXPECT_GE(recomputed, stage.first_block);
        EXPECT_LT(recomputed, stage.end_block);
      }
      for (const std::size_t gpu : stage.gpus) {
        EXPECT_LE(stage.memory, instance.cluster.gpus[gpu].memory * (1 + 1e-12));
      }
    }
    EXPECT_EQ(block, instance.profile.blocks.size());
    EXPECT_EQ(gpus, plan->partition.order);
  }
}

TEST(PipelinePlanner, TheIterationObjectiveNeverTakesLongerPerIteration) {
  RandomInstances random(32);
  for (int i = 0; i < 200; ++i) {
    Instance instance = random.next();
    const auto steady = plan_pipeline(instance.profile, instance.cluster, instance.options);
    instance.options.objective = Objective::kIteration;
    instance.options.gap = 0;
    const auto whole = plan_pipeline(instance.profile, instance.cluster, instance.options);
    ASSERT_EQ(steady.ok(), whole.ok());
    if (!steady) continue;
    EXPECT_LE(whole->partition.iteration, steady->partition.iteration * (1 + 1e-9)) << i;
  }
}

TEST(PipelinePlanner, StagesHaveAsManyReplicasAsAskedFor) {
  Instance instance = small();
  instance.cluster = two_servers(16, 1);
  for (const std::uint32_t replicas : {1u, 2u, 4u}) {
    instance.options.replicas = replicas;
    const auto plan = plan_pipeline(instance.profile, instance.cluster, instance.options);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->partition.stages.size(), 4 / replicas);
    for (const Stage& stage : plan->partition.stages) EXPECT_EQ(stage.gpus.size(), replicas);
    // The single stage for comparison has all GPUs nevertheless.
    ASSERT_TRUE(plan->data_parallel.has_value());
    EXPECT_EQ(plan->data_parallel->stages[0].gpus.size(), 4);
  }
}

TEST(PipelinePlanner, RefusesReplicasThatMakeNoStages) {
  Instance instance = small();
  instance.options.replicas = 3;
  EXPECT_EQ(refusal(instance), "replicas = 3: must divide the number of GPUs, which is 2");
  instance.options.replicas = 1;
  instance.profile.blocks.resize(1);
  EXPECT_EQ(refusal(instance),
            "replicas = 1: 2 GPUs are 2 stages, and the model has 1 blocks; give more replicas, or "
            "divide the model into more blocks");
}

TEST(PipelinePlanner, RefusesWhatDoesNotFit) {
  Instance instance = small();
  for (Gpu& gpu : instance.cluster.gpus) gpu.memory = 2;
  EXPECT_THAT(refusal(instance), HasSubstr("no division fits the memories"));
  instance.options.recompute = false;
  EXPECT_THAT(refusal(instance), HasSubstr("without recomputation: allow it"));
}

TEST(PipelinePlanner, RefusesValuesOutOfRange) {
  Instance instance = small();
  instance.profile.blocks[1].times[0].forward = -1;
  EXPECT_EQ(refusal(instance), "blocks[1].forward = -1: must be 0 to 1e+18");
  instance = small();
  instance.profile.blocks[0].stash = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal(instance), HasSubstr("blocks[0].stash = nan: must be"));
  instance = small();
  instance.profile.blocks[2].times.clear();
  EXPECT_THAT(refusal(instance), HasSubstr("blocks[2]: 0 times"));
  instance = small();
  instance.cluster.gpus[1].type = 1;
  EXPECT_EQ(refusal(instance), "gpus[1].type = 1: must be a type of the profile");
  instance = small();
  instance.cluster.bandwidth[1] = 0;
  EXPECT_THAT(refusal(instance), HasSubstr("bandwidth from GPU 0 to GPU 1 = 0: must be above 0"));
  instance = small();
  instance.cluster.bandwidth.pop_back();
  EXPECT_THAT(refusal(instance), HasSubstr("bandwidth: 3 entries; must be 4"));
  instance = small();
  instance.options.microbatches = 0;
  EXPECT_THAT(refusal(instance), HasSubstr("microbatches = 0"));
  instance = small();
  instance.profile.blocks.clear();
  EXPECT_THAT(refusal(instance), HasSubstr("0 blocks: must be 1 to 256"));
  instance.profile = equal_blocks(257, {.times = {{1, 2}}});
  EXPECT_THAT(refusal(instance), HasSubstr("257 blocks: must be 1 to 256; merge some"));
}

TEST(PipelinePlanner, PlansTheLargestInstance) {
  Instance instance{
      equal_blocks(kMaxBlocks, {.times = {{1, 2}}, .output = 1, .stash = 5, .weights = 1}),
      equal_gpus(16, 10),
      {}};
  for (std::size_t i = 0; i < instance.cluster.gpus.size(); ++i) {
    instance.cluster.gpus[i].speed = 1 + static_cast<double>(i % 3);
    instance.cluster.gpus[i].server = i / 4;
  }
  const auto plan = plan_pipeline(instance.profile, instance.cluster, instance.options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_LE(plan->partition.bottleneck, plan->data_parallel->bottleneck);
}

TEST(PipelinePlanner, MergesTheShortestPairs) {
  Profile profile{{"gpu"}, {}};
  for (const double seconds : {4.0, 1.0, 1.0, 8.0}) {
    profile.blocks.push_back({.name = "b",
                              .times = {{seconds, seconds}},
                              .output = seconds,
                              .stash = seconds,
                              .kept = seconds,
                              .weights = seconds});
  }
  const Profile merged = merge_blocks(profile, 2);
  ASSERT_EQ(merged.blocks.size(), 2u);
  EXPECT_EQ(merged.blocks[0].name, "b+b+b");
  EXPECT_EQ(merged.blocks[0].times[0].forward, 6);
  EXPECT_EQ(merged.blocks[0].output, 1);
  EXPECT_EQ(merged.blocks[0].stash, 6);
  EXPECT_EQ(merged.blocks[0].kept, 4);
  EXPECT_EQ(merged.blocks[0].weights, 6);
}

}  // namespace
}  // namespace tally::plan::pipeline
