#include "dataplane/protocol/job/config.h"

#include <algorithm>

#include "dataplane/partition/collective.h"
#include "dataplane/partition/groups.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kMinTileBytes = 4 << 10;
constexpr std::uint64_t kMaxTileBytes = 256 << 10;
constexpr std::uint32_t kMaxTileFanIn = 32;

}  // namespace

std::vector<TileScheduler::Limits> tile_limits(const AggregatorConfig& config) {
  std::vector<TileScheduler::Limits> limits = {{config.window_bytes, config.tiles}};
  if (config.one_class) return limits;
  limits.resize(config.max_height, {upper_window(config), config.upper_tiles});
  return limits;
}

std::uint32_t most_tiles(const AggregatorConfig& config) {
  const std::uint32_t upper = config.one_class ? 0 : (config.max_height - 1) * config.upper_tiles;
  return (1 + kSlowPool) * (config.tiles + upper);
}

// Vertices of height 1 have no child nodes, so their tiles' groups are small.
std::uint64_t most_inputs(const AggregatorConfig& config, std::uint32_t ranks) {
  const std::uint64_t stars = std::uint64_t{1 + kSlowPool} * config.tiles;
  const std::uint64_t upper = most_tiles(config) - stars;
  const std::uint32_t lowest = config.one_class ? ranks : std::min(ranks, kGroupSources);
  return stars * lowest + upper * std::min(ranks, config.upper_inputs);
}

// Several tiles fit the window at staggered phases. More inputs make tiles smaller, until the
// inputs come in groups. Then a group is a quarter of the window. Tiles with a pace are smaller: a
// tile comes to its links at once, and tiles of other trees wait for it there. In trees of several
// levels they are smaller still, because a node may root several trees and needs tiles of all.
std::uint64_t tile_bytes(const AggregatorConfig& config, std::uint64_t pace, std::uint32_t height,
                         std::uint32_t inputs) {
  if (config.tile_bytes != 0) return config.tile_bytes;
  const std::uint64_t fan_in = std::min<std::uint64_t>(inputs, kMaxTileFanIn);
  const std::uint64_t tiles = pace == 0 ? 2 : height == 1 ? 8 : 16;  // in window_bytes
  const std::uint64_t most = config.window_bytes / (tiles * fan_in);
  const std::uint64_t bytes = pace == 0 ? most : std::min(most, paced_bytes(pace));
  return std::clamp(bytes, kMinTileBytes, kMaxTileBytes);
}

// A tile is at least one cut of the widest element.
std::uint64_t largest_group(const AggregatorConfig& config, std::uint32_t ranks) {
  constexpr std::uint64_t kWidestElement = 8;
  return std::min(ranks, kGroupSources) *
         std::max(tile_bytes(config, 0, 1, ranks), kCutElements * kWidestElement);
}

}  // namespace tally::protocol
