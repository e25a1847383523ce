// The pulls of tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/tiles/tile_pool.h"
#include "dataplane/engine/tiles/tile_record.h"
#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

// Issues the pulls of tiles, group by group, and takes their answers. It owns the bursts of pulls
// and answers; the state of each input is in the tile's record. The tile pipeline calls it in the
// shard's thread. An input that does not come fails its tile (TileRecord::fail()). Nothing
// allocates.
class TilePulls {
 public:
  // Borrows `transport` and `pool`. `shard`: the shard's number. `children`: the most inputs of a
  // tile.
  TilePulls(transport::Transport& transport, TilePool& pool, std::uint32_t shard,
            std::size_t children);

  // Starts a tile that the protocol has filled: no input has come.
  static void begin(TileRecord& record);
  // Pulls the tile's group, with its checksums. Returns the bytes of the group's sources.
  // Precondition: the groups before it have been pulled in their order.
  std::uint64_t pull_group(TileRecord& record);
  // Pulls the inputs of the same group again. Precondition: they have been released.
  void pull_again(TileRecord& record);

  // Takes a burst of answers from the transport. Returns how many it took. When the caller has left
  // answers of the last burst, returns the number of these.
  std::size_t poll();
  // Records the answers of the burst up to one that completes a group: all inputs of the group have
  // come or failed. Returns the record of that group's tile; null at the end of the burst.
  TileRecord* next_complete();
  // Records the answer of a child node about its partial sum, and pulls a partial sum that belongs
  // to the tile's group. Returns true when no input of the group is awaited any more.
  bool take_partial(TileRecord& record, const protocol::TileEvent& event);

  // Releases the views of the group. Partial sums stay in their child nodes' memory until the tile
  // ends.
  void release(TileRecord& record);
  // Appends the sessions that have not answered for an input, once for each such input.
  static void append_awaited(const TileRecord& record, std::vector<protocol::SessionId>& sessions);

 private:
  static protocol::SessionId session_of(const TileRecord& record, std::size_t pull);

  transport::Transport& transport_;
  TilePool& pool_;
  std::uint32_t shard_;
  std::vector<transport::Pull> pulls_;
  std::vector<transport::Pulled> answers_;
  std::size_t next_ = 0;  // answers_ from next_ to end_ have not been recorded
  std::size_t end_ = 0;
};

}  // namespace tally::engine
