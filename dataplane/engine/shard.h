// The shard: one thread's share of the node. It joins the protocol (what to do), a transport (how
// bytes move) and the kernels (how they are summed), and shares nothing with other shards.
//
// Start reading at Shard::turn(), the loop's body. Memory, transport and clock are arguments: tests
// and simulations run many shards in one thread without DPDK.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/cycle_clock.h"
#include "base/idle.h"
#include "dataplane/engine/counters.h"
#include "dataplane/engine/mailbox.h"
#include "dataplane/engine/tile_slot.h"
#include "dataplane/engine/uplink.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/transport/transport.h"
#include "summation/reduce.h"

namespace tally::engine {

struct ShardConfig {
  protocol::AggregatorConfig protocol;
  const summation::Kernels* kernels = nullptr;
  const Crc32c* crc32c = nullptr;  // null: operations with checksums are refused
  std::uint32_t max_ranks = wire::kMaxRanks;
  // Where tiles and what belongs to them live: hugepages of the EAL in tallyd, the heap in tests.
  // Borrowed; used from the shard's thread. Grown to what the widest job needs, then reused.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// Pulls that a shard may have under way, or views that it may hold: for each input of a tile one of
// its bytes and one of its checksums.
inline std::size_t max_pulls(const ShardConfig& config) {
  return 2 * protocol::most_inputs(config.protocol, config.max_ranks);
}

class Shard {
 public:
  // Both arguments are borrowed and must outlive the shard. Throws when memory runs out.
  Shard(const ShardConfig& config, transport::Transport& transport);

  // One turn of the loop: every duty once. True when there was something to do. Never waits.
  bool turn(Nanos now);

  // Turns until `stop`, on this thread and by the clock, waiting as IdlePolicy says (`busy`:
  // never).
  void run(const std::atomic<bool>& stop, bool busy);

  // Of the shard's thread only; from elsewhere post() a task that uses it.
  protocol::Aggregator& protocol() { return protocol_; }
  const CycleClock& clock() const { return clock_; }
  // A job all of whose peers the transport has let go of.
  void remove_job(protocol::JobSlot job);
  // The connection with a parent. Then, in the same task, protocol().join_parent() names it: what
  // the parent says before is taken for a breach of the protocol. `link` is a number that no other
  // has, small. The uplink is borrowed until it is removed; its slots have `layout.total_bytes()`.
  void add_uplink(protocol::Link link, Uplink& uplink, std::uint32_t lane,
                  const protocol::SlotLayout& layout);
  // Sends what is left for it. Precondition: nobody speaks to it any more, nor has a tile in its
  // slots: protocol().parent_gone() and no tile of its job is in flight, or remove_job().
  void remove_uplink(protocol::Link link);

  // From the control thread.
  void post(std::function<void()> task) { mailbox_.post(std::move(task)); }
  // Called on the shard's thread for each peer lost, after its operations have failed.
  void on_lost(std::function<void(transport::Peer)> callback) { on_lost_ = std::move(callback); }
  // The same for each uplink.
  void on_uplink_lost(std::function<void(protocol::Link)> callback) {
    on_uplink_lost_ = std::move(callback);
  }
  const ShardCounters& counters() const { return counters_; }
  std::size_t tiles_in_flight() const {
    return slots_.size() - free_slots_.size() - free_downs_.size();
  }

 private:
  // What an uplink is to this shard.
  struct Parent {
    Uplink* uplink = nullptr;  // null: none has this link
    std::uint32_t lane = 0;
    protocol::SlotLayout layout;
    bool lost = false;  // and the protocol knows
  };

  // The loop (shard.cc).
  std::size_t take_notices(Nanos now);
  void heard(const transport::Received& received, Nanos now);
  std::size_t send_completions();
  std::size_t do_chores(Nanos now);
  std::size_t report_lost();
  std::size_t run_tasks();
  void sleep(Nanos now);
  Status admissible(transport::Peer peer, const wire::Notice& notice) const;

  // Tiles (shard_tiles.cc).
  std::size_t issue_pulls();
  std::size_t take_pulled();
  std::size_t take_pushed();
  void pull(std::uint32_t slot, bool again);
  static protocol::Member pulled_from(const TileSlot& slot, std::size_t pull);
  static protocol::Member pushed_to(const TileSlot& slot, std::size_t push);
  void sum(std::uint32_t slot);
  bool check(TileSlot& slot);
  void pull_again(std::uint32_t slot);
  void locate(const TileSlot& slot);
  void reduce(TileSlot& slot);
  void store(TileSlot& slot, summation::Reduction& reduction) const;
  void place_stats(TileSlot& slot);
  void push(std::uint32_t slot);
  void release_views(TileSlot& slot);
  void end(std::uint32_t slot, Nanos now);
  static void fail(TileSlot& slot, Status status, protocol::Member culprit);

  // Between vertices (shard_trees.cc).
  std::size_t hear_parents(Nanos now);
  std::size_t issue_downs();
  std::size_t take_steps();
  std::size_t send_letters();
  std::size_t lose_parents();
  void pull_step(const protocol::Step& step);
  void push_step(const protocol::Step& step);
  void hand_on(std::uint32_t slot);
  void copy_down(TileSlot& slot);
  bool place_below(const TileSlot& slot, transport::Landing& landing);
  std::byte* own_slot(const protocol::Tile& tile) const;

  ShardConfig config_;
  transport::Transport& transport_;
  protocol::Aggregator protocol_;
  Mailbox mailbox_;
  ShardCounters counters_;
  CycleClock clock_;  // until run() it stands still within a turn
  std::function<void(transport::Peer)> on_lost_;
  std::function<void(protocol::Link)> on_uplink_lost_;
  std::vector<Parent> parents_;  // by link

  std::vector<TileSlot> slots_;  // for tiles up, then as many for tiles down as parents may send
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> free_downs_;
  std::size_t downs_ = 0;
  Nanos next_chores_ = 0;

  // Bursts, reused from turn to turn.
  std::vector<transport::Received> received_;
  std::vector<transport::Pulled> pulled_;
  std::vector<transport::Pushed> pushed_;
  std::vector<transport::Pull> pulls_;
  std::vector<transport::Push> pushes_;
  std::vector<transport::Landing> landings_;
  std::vector<std::byte*> outputs_;
  std::vector<transport::Message> messages_;
  std::vector<RingSlot> incoming_;
  std::vector<pollfd> polled_;
};

}  // namespace tally::engine
