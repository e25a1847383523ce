// The tiles of a shard, from start to end. The engine starts a tile, reports each of its steps, and
// ends it. The unit gives each tile its part of the operation, and counts its bytes in flight for
// the scheduler. It reports to the operation's verdict, the parent and the child nodes how the tile
// ended. The engine owns the tiles. Everything runs in the shard's thread, and nothing allocates
// once a Tile's vectors have grown.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/protocol/job/config.h"
#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/scheduling/backlog.h"
#include "dataplane/protocol/scheduling/pacer.h"
#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/protocol/scheduling/tile_sizing.h"
#include "dataplane/protocol/tree/child_nodes.h"
#include "dataplane/protocol/tree/parent_nodes.h"
#include "dataplane/protocol/verdicts/verdicts.h"

namespace tally::protocol {

class Tiles {
 public:
  // Borrows all.
  Tiles(const AggregatorConfig& config, const JobRegistry& jobs, TileScheduler& scheduler,
        Pacer& pacer, TileSizing& sizing, Backlog& backlog, Verdicts& verdicts,
        ParentNodes& parents, ChildNodes& children)
      : config_(config),
        jobs_(jobs),
        scheduler_(scheduler),
        pacer_(pacer),
        sizing_(sizing),
        backlog_(backlog),
        verdicts_(verdicts),
        parents_(parents),
        children_(children) {}

  // Fills `tile` with the next tile to move, and reuses its vectors. Returns false when there is
  // none, or the window is full. Precondition: no other tile in flight has tile.handle.
  bool start_tile(Tile& tile);
  // Does the same for a result on its way down. The bound of tiles does not count such a tile. Its
  // only buffer is tile.own, which holds the result. The caller must start these tiles before tiles
  // that go up. It ends them with end_down(), without the events in between.
  bool start_down(Tile& tile);
  // When false, start_tile() or start_down() finds nothing.
  bool has_ready() const { return scheduler_.has_ready(); }
  bool has_downs() const { return parents_.has_results(); }
  // When true, operations wait for the pace of their roots. release() makes those ready whose time
  // has come. The caller must call it before it starts tiles.
  bool has_held() const { return pacer_.has_held(); }
  void release(Nanos now);
  // Returns whether some tiles of ready operations have not been started.
  bool has_tiles() const { return !backlog_.empty(); }
  // The engine is about to issue the tile's pulls. `now` never goes back, here and below.
  void pulling(const Tile& tile, Nanos now);
  // Returns false when the tile's operation has failed in the meantime. The engine must then store
  // nothing for it, and the operation's members may be gone.
  bool wanted(const Tile& tile) const;
  // The member's bytes of a tile do not match their checksums. The engine pulls them again, or
  // fails the tile.
  void damaged(SessionId member);
  // The group has been added up, from `began` to `now`, and its inputs are released. tile.group
  // becomes the next group, which the engine is about to pull. Precondition: the group did not
  // complete the sum.
  void next_group(Tile& tile, Nanos began, Nanos now);
  // The inputs of the last group are there, and the engine is about to complete the sum and store
  // result bytes. A later failure reports that results may have landed.
  void storing(Tile& tile, Nanos now);
  // The sum has ended. Results that are not placed yet are on their way.
  void stored(const Tile& tile, Nanos now);
  // Returns whether the tile may push its results to ranks now, to receivers_at_once() ranks at a
  // time. When false, the results are kept back, and the engine must ask again after pushes have
  // been answered. Results for child nodes do not wait for this: they go when the child node has a
  // free buffer. When a tile has no other receivers, the engine calls this once, because its
  // pushes begin.
  bool start_pushing(Tile& tile, Nanos now);
  // A push that a TileEvent asked for has been answered. This notifies the child node.
  void passed_down(Tile& tile, std::uint32_t index);
  // The tile has ended. `status`: kOk when its result is placed everywhere, else the reason. (A
  // partial sum is then in its buffer, and a result for child nodes is in their buffers.)
  // `culprit`: the member that caused the failure, or kNoSession. Precondition: all its pulls,
  // pushes and TileEvents have been answered.
  void end_tile(const Tile& tile, Status status, SessionId culprit, Nanos now);
  void end_down(const Tile& tile, Status status, SessionId culprit, Nanos now);

 private:
  TileClass class_of(const Tile& tile) const;
  std::optional<TileScheduler::Choice> next_choice();
  void cut_tile(Job& job, PoolIndex index, Tile& tile);
  void start_requested(Job& job, PoolIndex index, Tile& tile);
  void pull_group(Tile& tile, std::uint32_t begin);
  void leave_window(const Tile& tile, Nanos now);
  void ended(Job& job, const Tile& tile, Status status, SessionId culprit, Nanos now);

  const AggregatorConfig& config_;
  const JobRegistry& jobs_;
  TileScheduler& scheduler_;
  Pacer& pacer_;
  TileSizing& sizing_;
  Backlog& backlog_;
  Verdicts& verdicts_;
  ParentNodes& parents_;
  ChildNodes& children_;
  Nanos busy_ = 0;  // time spent on sums
};

}  // namespace tally::protocol
