#include "dataplane/protocol/job/config.h"

#include <algorithm>

#include "dataplane/partition/collective.h"
#include "dataplane/partition/groups.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kMinTileBytes = 4 << 10;
constexpr std::uint64_t kMaxTileBytes = 256 << 10;
constexpr std::uint32_t kMaxTileFanIn = 32;

}  // namespace

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
// inputs come in groups. Then a group is a quarter of the window.
std::uint64_t tile_bytes(const AggregatorConfig& config, std::uint64_t window_bytes,
                         std::uint32_t inputs) {
  if (config.tile_bytes != 0) return config.tile_bytes;
  const std::uint64_t fan_in = std::min<std::uint64_t>(inputs, kMaxTileFanIn);
  return std::clamp(window_bytes / (2 * fan_in), kMinTileBytes, kMaxTileBytes);
}

// A tile is at least one cut of the widest element.
std::uint64_t largest_group(const AggregatorConfig& config, std::uint32_t ranks) {
  constexpr std::uint64_t kWidestElement = 8;
  return std::min(ranks, kGroupSources) *
         std::max(tile_bytes(config, config.window_bytes, ranks), kCutElements * kWidestElement);
}

}  // namespace tally::protocol
