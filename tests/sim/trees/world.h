// Runs a schedule of trees: nodes, their sessions with ranks and with each other, and transfers.
// Events in progress complete in a random order from the seed; only the messages of one session
// keep their order. One thread, no system clock.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/block_stats.h"
#include "tests/sim/trace.h"
#include "tests/sim/trees/plan.h"
#include "tests/sim/trees/ranks.h"
#include "tests/sim/trees/shard.h"

namespace tally::sim::trees {

// No event is left, and operations have not ended.
class Deadlock : public Violation {
 public:
  using Violation::Violation;
};

class World {
 public:
  World(const Schedule& schedule, const Trace& trace);
  ~World();

  // Runs until everything has ended. Throws Violation at a broken invariant.
  void run();
  std::uint64_t events() const { return events_; }
  // The parts of a job that failed.
  std::uint64_t failures(std::size_t job) const { return jobs_[job]->failures(); }

  // -- for shards ------------------------------------------------------------------------------
  Nanos now() const { return now_; }
  const Trace& trace() const { return trace_; }
  void send(std::uint32_t node, protocol::Aggregator& protocol);
  void start(const Transfer& transfer) { transfers_.push_back(transfer); }
  // The bytes of a tile, of a rank or in a child node's buffers. Throws when the node may not
  // access them.
  std::byte* memory(std::uint32_t node, const protocol::Endpoint& where,
                    const protocol::Tile& tile);
  // The node's own buffer of a tile.
  std::byte* own_memory(std::uint32_t node, const protocol::Tile& tile, bool up);
  static void stats_of(ElementType type, std::uint64_t count, const std::byte* elements,
                       std::span<BlockStats> stats);

  // -- for ranks -------------------------------------------------------------------------------
  Random& random() { return random_; }
  bool lost(std::uint32_t node) const { return nodes_[node].lost; }
  void notify(std::size_t job, std::uint16_t rank, std::uint32_t node, const wire::Notice& notice);

 private:
  enum class Way : std::uint8_t { kFromRank, kToRank, kUp, kDown };

  // One direction of a session.
  struct Channel {
    Way way = Way::kFromRank;
    std::size_t job = 0;
    std::uint32_t from = 0;  // node or rank
    std::uint32_t to = 0;
    std::uint32_t number = 0;  // the session's number at the receiver: a SessionId or a ParentId
    std::deque<RingEntry> messages;
    bool hangs_up = false;  // after these messages
    bool closed = false;
  };

  // A session at a node, by its SessionId or its ParentId.
  struct Session {
    std::size_t job = 0;
    bool is_rank = false;
    std::uint32_t other = 0;                    // rank or node
    std::size_t out = 0;                        // index of the outgoing channel
    std::vector<std::byte>* buffers = nullptr;  // the child node's buffers, or this node's for that
                                                // parent
  };

  struct Node {
    std::unique_ptr<SimShard> shard;
    std::vector<Session> members;
    std::vector<Session> links;
    bool dirty = false;
    bool lost = false;
  };

  void admit(std::size_t job);
  void join_ranks(std::size_t job);
  void join_nodes(std::size_t job, std::uint32_t parent, std::uint32_t number, std::uint32_t child,
                  std::uint32_t child_number);
  std::size_t connect(Way way, std::size_t job, std::uint32_t from, std::uint32_t to,
                      std::uint32_t number);
  bool act();
  void post(std::size_t channel, const RingEntry& message);
  void deliver(std::size_t which);
  void take_up(const Channel& channel, const RingEntry& message);
  void trace_message(const Channel& channel, const RingEntry& message) const;
  void take_hang_up(const Channel& channel);
  void touched(std::uint32_t node);
  void finish_transfer(std::size_t index);
  void befall();
  void hang_up(std::size_t channel);
  void lose_rank(std::size_t job);
  void lose_node(std::uint32_t node);
  bool jump();
  void check_end();

  const Schedule& schedule_;
  const Trace& trace_;
  Random random_;
  Nanos now_ = 0;
  std::uint64_t events_ = 0;
  std::vector<Node> nodes_;
  std::vector<Channel> channels_;
  std::vector<std::size_t> open_;  // channels with messages
  // By job, rank and node.
  std::map<std::tuple<std::size_t, std::uint16_t, std::uint32_t>, std::size_t> rank_channels_;
  std::vector<Transfer> transfers_;
  std::vector<std::unique_ptr<Ranks>> jobs_;
  std::vector<bool> befallen_;
  std::deque<std::vector<std::byte>> buffer_memory_;
};

}  // namespace tally::sim::trees
