// The sizes that follow from a shard's settings.
#include "dataplane/protocol/job/config.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kFastPace = 1'000'000'000;

TEST(TileBytes, FollowTheWindowTheInputsAndThePace) {
  const AggregatorConfig config;
  EXPECT_EQ(tile_bytes(config, 0, 1, 1), 256U << 10);
  EXPECT_EQ(tile_bytes(config, 0, 1, 16), 128U << 10) << "two in the window";
  EXPECT_EQ(tile_bytes(config, 0, 1, 1000), 64U << 10) << "inputs come in groups";
  EXPECT_EQ(tile_bytes(config, kFastPace, 1, 16), 32U << 10) << "eight";
  EXPECT_EQ(tile_bytes(config, kFastPace, 2, 16), 16U << 10) << "sixteen";
  EXPECT_EQ(tile_bytes(config, 1'000'000, 1, 2), 20'000U) << "what the pace carries in 20 ms";
  EXPECT_EQ(tile_bytes(config, 1, 2, 2), 4U << 10) << "the least";
  EXPECT_EQ(tile_bytes({.tile_bytes = 12'345}, kFastPace, 2, 16), 12'345U);
}

TEST(TileLimits, TilesOfSeveralLevelsHaveAWindowOfTheirOwn) {
  AggregatorConfig config{.window_bytes = 1000, .tiles = 7, .max_height = 3, .upper_tiles = 5};
  const auto limits = tile_limits(config);
  ASSERT_EQ(limits.size(), 3U);
  EXPECT_EQ(limits[0].window_bytes, 1000U);
  EXPECT_EQ(limits[0].tiles, 7U);
  for (int cls = 1; cls < 3; ++cls) {
    EXPECT_EQ(limits[cls].window_bytes, 2000U);
    EXPECT_EQ(limits[cls].tiles, 5U);
  }
  config.one_class = true;
  EXPECT_EQ(tile_limits(config).size(), 1U);
}

}  // namespace
}  // namespace tally::protocol
