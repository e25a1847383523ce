#include "control/sim/core/tree_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "control/sim/core/ready_times.h"
#include "tests/support/control/test_plans.h"

namespace tally::simulator {
namespace {

TEST(TreeSet, APlanIsCutAsWorkersAndNodesCutIt) {
  const plan::Plan plan = plan::small_plan();
  const TreeSet set = trees_of_plan(plan.domains[0], 64 << 20, 0, 0);
  EXPECT_EQ(set.total(), 64 << 20);
  // 4096 blocks of 16 KiB: 40000 / 65536 of them are exactly 2500.
  EXPECT_EQ(set.bytes, (std::vector<std::uint64_t>{2500 << 14, 1596 << 14}));
  EXPECT_EQ(set.chunk, 262144);
  EXPECT_EQ(set.window, 64);
}

TEST(TreeSet, ASmallOperationGoesWholeToTheTreeOfItsTag) {
  plan::Plan plan = plan::small_plan();
  plan.domains[0].classes[1].divided = false;
  std::vector<std::uint64_t> operations(2);
  for (std::uint32_t tag = 0; tag < 1000; ++tag) {
    const TreeSet set = trees_of_plan(plan.domains[0], 1 << 20, 0, tag);
    EXPECT_EQ(set.total(), 1 << 20);
    ++operations[set.home];
    EXPECT_EQ(set.bytes[set.home], 1 << 20);
  }
  EXPECT_NEAR(static_cast<double>(operations[0]), 1000 * 40000.0 / 65536, 5);
}

TEST(TreeSet, TilesOfAllTreesAdvanceTogether) {
  TreeSet set{.trees = std::vector<plan::Tree>(3), .bytes = {400, 0, 250}, .chunk = 100};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tiles;
  for (const Tile& tile : tiles_of(set)) tiles.emplace_back(tile.tree, tile.bytes);
  EXPECT_EQ(tiles, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{
                       {0, 100}, {2, 100}, {0, 100}, {2, 100}, {0, 100}, {2, 50}, {0, 100}}));
}

TEST(TreeSet, DivideKeepsTheSum) {
  for (std::uint64_t bytes = 0; bytes < 100; ++bytes) {
    const auto parts = divide(bytes, std::vector<double>{0.1, 0.6, 0, 0.3});
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}), bytes);
    EXPECT_NEAR(static_cast<double>(parts[1]), 0.6 * static_cast<double>(bytes), 1);
  }
}

TEST(ReadyTimes, HaveTheMeanAndFollowTheSeed) {
  std::vector<plan::VertexId> workers(10000);
  std::iota(workers.begin(), workers.end(), plan::VertexId{0});
  const ReadyTimes times = ready_times(10001, workers, 2, 1);
  EXPECT_EQ(times, ready_times(10001, workers, 2, 1));
  EXPECT_NE(times, ready_times(10001, workers, 2, 2));
  EXPECT_NEAR(std::accumulate(times.begin(), times.end(), 0.0) / 10000, 2, 0.06);
  const auto late = std::count_if(times.begin(), times.end(), [](double one) { return one > 4; });
  EXPECT_NEAR(static_cast<double>(late) / 10000, 0.1353, 0.01);  // exp(-2)
  EXPECT_EQ(times.back(), 0);                                    // a helper
  EXPECT_EQ(ready_times(3, std::vector<plan::VertexId>{0, 1}, 0, 1), ReadyTimes(3, 0));
}

}  // namespace
}  // namespace tally::simulator
