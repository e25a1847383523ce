// The tiles of a shard, from start to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/system/cycle_clock.h"
#include "dataplane/engine/counters.h"
#include "dataplane/engine/parent_connections.h"
#include "dataplane/engine/shard_config.h"
#include "dataplane/engine/tiles/tile_pool.h"
#include "dataplane/engine/tiles/tile_pulls.h"
#include "dataplane/engine/tiles/tile_pushes.h"
#include "dataplane/engine/tiles/tile_reducer.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

// Carries tiles through their stages: pull, sum, push, end. It asks the protocol before each stage
// and reports each stage to it; the units in tiles/ do the work. The shard calls its functions once
// in every turn, in the shard's thread. A failure ends the tile with the failure's status. A
// function throws std::bad_alloc when memory runs out; the tiles in flight stay consistent.
class TilePipeline {
 public:
  // Borrows all except `config`.
  TilePipeline(const ShardConfig& config, transport::Transport& transport,
               protocol::Aggregator& protocol, const ParentConnections& parents,
               ShardCounters& counters, CycleClock& clock);

  // The pool of the records. The caller reserves records here, and does nothing else to it.
  TilePool& pool() { return pool_; }
  const TilePool& pool() const { return pool_; }

  // Each of these does what is possible now, and returns how many tiles, events or answers it has
  // handled.
  // Starts tiles up and pulls their first groups.
  std::size_t start_tiles();
  // Starts tiles down: results of parents that the shard hands on.
  std::size_t start_downs();
  // Handles the events that the protocol has for tiles in flight. The caller must call it after
  // every call to the protocol that may produce such events.
  std::size_t handle_events();
  // Takes inputs that have arrived, and sums complete groups. When the transport answers
  // immediately, this call also takes the next groups of a tile, until it has pulled `most` bytes
  // of them.
  std::size_t poll_pulls(std::uint64_t most = kTurnBytes);
  // Takes the answers of pushes, and pushes more results.
  std::size_t poll_pushes();

  // Returns the sessions for which the tiles of this operation wait, once for each pull and push.
  std::vector<protocol::SessionId> awaited(const protocol::Stuck& stuck) const;

 private:
  // A turn starts tiles until it has pulled this many bytes, so that notices of a higher priority
  // wait only briefly.
  static constexpr std::uint64_t kTurnBytes = 1 << 20;

  protocol::Tiles& tiles() { return protocol_.tiles(); }
  bool stopped(const TileRecord& record);
  std::uint64_t take_group(TileRecord& record);
  std::uint64_t add_group(TileRecord& record);
  void sum(TileRecord& record);
  void hand_on(TileRecord& record);
  bool open(TileRecord& record);
  bool close(TileRecord& record);
  bool check(TileRecord& record);
  std::span<const protocol::SessionId> touched(const TileRecord& record);
  void push(TileRecord& record, std::span<const transport::Landing> landings, Nanos now);
  void push_more(TileRecord& record, Nanos now);
  void push_kept_back();
  void give_up(TileRecord& record);
  void give_up_without_memory(TileRecord& record);
  void end(TileRecord& record, Nanos now);

  transport::Transport& transport_;
  protocol::Aggregator& protocol_;
  const ParentConnections& parents_;
  ShardCounters& counters_;
  CycleClock& clock_;
  TilePool pool_;
  TilePulls pulls_;
  TileReducer reducer_;
  TilePushes pushes_;

  std::vector<std::uint32_t> kept_back_;  // tiles whose results wait for other tiles' results
  std::vector<std::uint32_t> continued_;  // tiles of a burst of answers that have more to push
  std::vector<protocol::SessionId> members_;
};

}  // namespace tally::engine
