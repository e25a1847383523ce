// The settings of a shard's protocol, and the sizes that follow from them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "dataplane/partition/partition.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"
#include "dataplane/protocol/scheduling/tile_sizing.h"

namespace tally::protocol {

struct AggregatorConfig {
  Partition plan;
  // The tree of the plan whose star is at this shard, for jobs without a plan of their own.
  std::uint32_t shard = 0;
  std::uint64_t window_bytes = 4 << 20;  // in flight each way; for each class, see tile_limits()
  std::uint64_t tile_bytes = 0;          // of one input; 0: derived from the window
  // Tiles in flight. TileScheduler counts the tiles and bytes of slow jobs apart.
  std::uint32_t tiles = 64;
  // The largest height of a vertex. Each height has a class of tiles of its own. Each class above
  // height 1 has at most `upper_tiles` tiles in flight, and its tiles have at most `upper_inputs`
  // inputs.
  std::uint32_t max_height = 1;
  std::uint32_t upper_tiles = 16;
  std::uint32_t upper_inputs = UINT32_MAX;
  // For tests: all heights share one class. Trees may then wait for each other in a circle.
  bool one_class = false;
  // When this many bytes or more are to be read and stored at this shard, results bypass the
  // caches.
  std::uint64_t stream_bytes = UINT64_MAX;
  Nanos default_deadline = 60 * kSecond;
  // Borrowed; the shards of a node share it. Null when this shard is alone.
  SmallOperations* small = nullptr;
};

// Returns the window of a class above height 1. It is larger, because a tile of several levels
// holds its part of the window while its child nodes sum.
inline std::uint64_t upper_window(const AggregatorConfig& config) {
  return 2 * config.window_bytes;
}

// Returns the bounds of each class.
std::vector<TileScheduler::Limits> tile_limits(const AggregatorConfig& config);

// Returns the number of tiles on their way up that may be in flight at once, including slow jobs'
// tiles.
std::uint32_t most_tiles(const AggregatorConfig& config);

// Returns the number of inputs of all these tiles together, for jobs of `ranks` ranks. A vertex has
// at most as many children as its job has ranks, because each child node has ranks of its own below
// it.
std::uint64_t most_inputs(const AggregatorConfig& config, std::uint32_t ranks);

// Returns the bytes of one input of a tile that has this many inputs, at a vertex with this pace
// (Vertex::pace) and height.
std::uint64_t tile_bytes(const AggregatorConfig& config, std::uint64_t pace, std::uint32_t height,
                         std::uint32_t inputs);

// Returns the bytes of the largest group of inputs of any tile of a job of `ranks` ranks. A
// transport that lands inputs needs room for one such group.
std::uint64_t largest_group(const AggregatorConfig& config, std::uint32_t ranks);

}  // namespace tally::protocol
