#include "control/plan/pipeline/nic_load.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_pipelines.h"

namespace tally::plan::pipeline {
namespace {

std::vector<NicLoad> loads_of(const Instance& instance, const std::vector<Cut>& cuts) {
  const StageCosts costs(instance.profile, instance.cluster, in_order(instance.cluster),
                         instance.options);
  return nic_loads(instance.profile, instance.cluster, instance.options, *evaluate(costs, cuts));
}

Instance two_by_two() {
  return {equal_blocks(4, {.times = {{1, 2}}, .output = 6, .weights = 8}), two_servers(16, 2), {}};
}

TEST(NicLoad, ATransferBetweenServersLoadsBothNicsBothWays) {
  const auto loads = loads_of(two_by_two(), {{2, 2}, {4, 4}});
  ASSERT_EQ(loads.size(), 2u);
  for (const NicLoad& load : loads) {
    EXPECT_DOUBLE_EQ(load.out, 6);
    EXPECT_DOUBLE_EQ(load.in, 6);
    EXPECT_EQ(load.speed, 2);
    EXPECT_DOUBLE_EQ(load.seconds(), 3);
  }
}

TEST(NicLoad, ASumOverServersAddsToTheTransfers) {
  // The first stage has GPUs of both servers; two thirds of its microbatches are at the first.
  const auto loads = loads_of(two_by_two(), {{2, 3}, {4, 4}});
  const double sum = 2 * 2.0 / 3 * 16 / 3;
  EXPECT_NEAR(loads[0].out, 6 * 2.0 / 3 + sum, 1e-12);
  EXPECT_NEAR(loads[1].in, 6 * 2.0 / 3 + sum, 1e-12);
}

TEST(NicLoad, FasterReplicasGetMoreMicrobatches) {
  Instance instance = two_by_two();
  instance.cluster.gpus[2].speed = 2;
  instance.profile.blocks[0].weights = instance.profile.blocks[1].weights = 0;
  EXPECT_NEAR(loads_of(instance, {{2, 3}, {4, 4}})[0].out, 6 * 2.0 / 4, 1e-12);
  instance.options.dispatch = Dispatch::kRoundRobin;
  EXPECT_NEAR(loads_of(instance, {{2, 3}, {4, 4}})[0].out, 6 * 2.0 / 3, 1e-12);
}

TEST(NicLoad, OneServerHasNone) {
  Instance instance = two_by_two();
  for (Gpu& gpu : instance.cluster.gpus) gpu.server = 0;
  EXPECT_TRUE(loads_of(instance, {{2, 2}, {4, 4}}).empty());
}

}  // namespace
}  // namespace tally::plan::pipeline
