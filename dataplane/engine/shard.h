// The shard: one thread's share of the node. It joins the protocol (what to do), a transport (how
// bytes move) and the kernels (how they are summed), and shares nothing with other shards.
//
// Start reading at Shard::turn(), the loop's body. Memory, transport and clock are arguments: tests
// and simulations run many shards in one thread without DPDK.
#pragma once

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
  return std::size_t{config.protocol.tiles} * config.max_ranks * 2;
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

  // From the control thread.
  void post(std::function<void()> task) { mailbox_.post(std::move(task)); }
  // Called on the shard's thread for each peer lost, after its operations have failed.
  void on_lost(std::function<void(transport::Peer)> callback) { on_lost_ = std::move(callback); }
  const ShardCounters& counters() const { return counters_; }
  std::size_t tiles_in_flight() const { return slots_.size() - free_slots_.size(); }

 private:
  // A tile on its way and what the transport gave for it.
  struct TileSlot {
    explicit TileSlot(std::pmr::memory_resource* memory)
        : views(memory),
          handles(memory),
          held(memory),
          damages(memory),
          stats(memory),
          staging(memory) {}

    protocol::Tile tile;
    // By pull: the sources, then their checksums.
    std::pmr::vector<View> views;
    std::pmr::vector<std::uint32_t> handles;  // of the views
    std::pmr::vector<std::uint8_t> held;      // the view is to be released
    std::pmr::vector<std::uint8_t> damages;   // by checksums: how often they were not these bytes'
    std::pmr::vector<BlockStats> stats;
    std::pmr::vector<std::byte> staging;  // the sum, where it cannot be stored at the receivers
    std::uint32_t pulls_left = 0;
    std::uint32_t pushes_left = 0;
    Status status = Status::kOk;
    protocol::Member culprit = protocol::kNoMember;
  };

  std::size_t take_notices(Nanos now);
  std::size_t issue_pulls();
  std::size_t take_pulled();
  std::size_t take_pushed();
  std::size_t send_completions();
  std::size_t do_chores(Nanos now);

  Status admissible(transport::Peer peer, const wire::Notice& notice) const;
  void pull(std::uint32_t slot);
  static protocol::Member pulled_from(const TileSlot& slot, std::size_t pull);
  void sum(std::uint32_t slot);
  bool check(TileSlot& slot);
  void pull_again(std::uint32_t slot);
  void reduce(TileSlot& slot, bool staged);
  void place_stats(TileSlot& slot);
  void push(std::uint32_t slot);
  void release_views(TileSlot& slot);
  void end(std::uint32_t slot, Nanos now);
  void fail(TileSlot& slot, Status status, protocol::Member culprit);
  void sleep(Nanos now);

  ShardConfig config_;
  transport::Transport& transport_;
  protocol::Aggregator protocol_;
  Mailbox mailbox_;
  ShardCounters counters_;
  CycleClock clock_;  // until run() it stands still within a turn
  std::function<void(transport::Peer)> on_lost_;

  std::vector<TileSlot> slots_;
  std::vector<std::uint32_t> free_slots_;
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
};

}  // namespace tally::engine
