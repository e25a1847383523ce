// The pushes of tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/counters.h"
#include "dataplane/engine/tiles/tile_pool.h"
#include "dataplane/engine/tiles/tile_record.h"
#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

// The answer to one push of a tile.
struct PushAnswer {
  TileRecord* record = nullptr;
  // The index in tile.below of the child node that has the result now; kNone when the push failed
  // or went to a rank.
  std::uint32_t below = protocol::kNone;
};

// Pushes results and statistics: to ranks, a few of them at a time, and to child nodes when they
// have room. It owns the bursts of pushes and answers; the state of each push is in the tile's
// record. The tile pipeline calls it in the shard's thread, decides when pushes may begin, and ends
// a tile whose `pushes_left` is 0. A push that fails fails its tile. Nothing allocates.
class TilePushes {
 public:
  // Borrows all. Counts pushed bytes in `bytes_out`. `children`: the most receivers of a tile.
  TilePushes(transport::Transport& transport, TilePool& pool, Counter& bytes_out,
             std::size_t children);

  // Returns where the tile's results go, and behind them its statistics. The landings are valid
  // until the next call.
  std::span<const transport::Landing> locate(const TileRecord& record);
  // Begins the pushes of a tile. Pushes results that the kernels have stored at the receiver, and
  // leaves the others to push_more(). `landings`: those of locate(), or none when the tile has
  // failed.
  void start(TileRecord& record, std::span<const transport::Landing> landings);
  static bool has_more(const TileRecord& record) {
    return record.next_push < record.unpushed.size();
  }
  // Pushes as many of the other results as may be in progress at a time.
  void push_more(TileRecord& record);
  // Drops the pushes that push_more() has not issued, because the tile has failed.
  static void drop_rest(TileRecord& record);
  // Pushes the result to the child node of the event. When that is not possible, the tile fails and
  // has one push less to wait for.
  void push_down(TileRecord& record, const protocol::TileEvent& event);

  // Takes a burst of answers from the transport. Returns how many it took. When the caller has left
  // answers of the last burst, returns the number of these.
  std::size_t poll();
  // Records the next answer of the burst, and returns it; nothing at the end of the burst.
  std::optional<PushAnswer> next();

  // Appends the sessions of the receivers that have not answered, once for each such push.
  static void append_awaited(const TileRecord& record, std::vector<protocol::SessionId>& sessions);

 private:
  void add(TileRecord& record, std::size_t push, const transport::Landing& landing);
  bool store_at_child(const TileRecord& record, transport::Landing& landing);
  static protocol::SessionId session_of(const TileRecord& record, std::size_t push);

  transport::Transport& transport_;
  TilePool& pool_;
  Counter& bytes_out_;
  std::vector<transport::Landing> landings_;
  std::vector<transport::Push> pushes_;
  std::vector<transport::Pushed> answers_;
  std::size_t next_ = 0;  // answers_ from next_ to end_ have not been recorded
  std::size_t end_ = 0;
};

}  // namespace tally::engine
