#include "control/plan/pipeline/gpu_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/test_pipelines.h"

namespace tally::plan::pipeline {
namespace {

using ::testing::ElementsAre;

double order_time(const Instance& instance, std::span<const std::size_t> order, double limit) {
  const StageCosts costs(instance.profile, instance.cluster, {order.begin(), order.end()},
                         instance.options);
  const auto cuts = least_bottleneck(costs, limit);
  return cuts ? evaluate(costs, *cuts)->bottleneck : kUnlimited;
}

OrderSearch search(const Instance& instance, std::size_t most) {
  return best_order(
      instance.cluster,
      [&](std::span<const std::size_t> order, double limit) {
        return order_time(instance, order, limit);
      },
      most);
}

// The least time over all orders of the servers, of which each has one GPU.
double naive_order(const Instance& instance) {
  std::vector<std::size_t> order = in_order(instance.cluster);
  double best = kUnlimited;
  do {
    best = std::min(best, order_time(instance, order, kUnlimited));
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(GpuOrder, EqualsTheSearchOfAllOrders) {
  RandomInstances random(21);
  for (int i = 0; i < 300; ++i) {
    const Instance instance = random.next();
    const OrderSearch found = search(instance, 5040);
    EXPECT_TRUE(found.is_exhaustive);
    EXPECT_EQ(found.time, naive_order(instance)) << i;
  }
}

TEST(GpuOrder, ExchangesComeCloseToTheBest) {
  RandomInstances random(22);
  int equal = 0, possible = 0;
  for (int i = 0; i < 300; ++i) {
    const Instance instance = random.next();
    if (instance.cluster.gpus.size() < 4) continue;
    const OrderSearch found = search(instance, 20);
    EXPECT_FALSE(found.is_exhaustive);
    EXPECT_LE(found.tried, 20u);
    const double best = naive_order(instance);
    EXPECT_GE(found.time, best) << i;
    if (best == kUnlimited) continue;
    ++possible;
    if (found.time <= best * 1.05) ++equal;
  }
  EXPECT_GT(possible, 30);
  EXPECT_GE(equal * 10, possible * 8);
}

TEST(GpuOrder, ServersWithoutADifferenceCountOnce) {
  const Instance equal{equal_blocks(4, {.times = {{1, 2}}}), equal_gpus(8, 1), {}};
  const OrderSearch found = search(equal, 5040);
  EXPECT_EQ(found.tried, 1u);
  EXPECT_TRUE(found.is_exhaustive);
  EXPECT_THAT(found.order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(GpuOrder, GpusOfAServerStayTogetherTheFastestFirst) {
  Instance instance{equal_blocks(4, {.times = {{1, 2}}}), two_servers(16, 1), {}};
  instance.cluster.gpus[1].speed = 3;
  instance.cluster.gpus[3].speed = 2;
  const OrderSearch found = search(instance, 5040);
  EXPECT_EQ(found.tried, 2u);
  EXPECT_THAT(found.order, ::testing::AnyOf(ElementsAre(1, 0, 3, 2), ElementsAre(3, 2, 1, 0)));
}

TEST(GpuOrder, StartsAlongTheFastestLinks) {
  // A chain of fast links 0 - 2 - 1 - 3; the others are slow.
  Instance instance{equal_blocks(4, {.times = {{1, 2}}, .output = 100}), equal_gpus(4, 1), {}};
  for (const auto& [a, b] : {std::pair{0, 2}, {2, 1}, {1, 3}}) {
    instance.cluster.bandwidth[static_cast<std::size_t>(a * 4 + b)] = 100;
    instance.cluster.bandwidth[static_cast<std::size_t>(b * 4 + a)] = 100;
  }
  const OrderSearch found = search(instance, 1);
  EXPECT_THAT(found.order, ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(found.tried, 1u);
}

}  // namespace
}  // namespace tally::plan::pipeline
