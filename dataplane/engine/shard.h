// The shard: one thread's share of the node. It shares nothing with other shards.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/idle.h"
#include "base/system/cycle_clock.h"
#include "dataplane/engine/counters.h"
#include "dataplane/engine/mailbox.h"
#include "dataplane/engine/parent_connections.h"
#include "dataplane/engine/shard_config.h"
#include "dataplane/engine/tile_pipeline.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

// Runs the loop that joins the protocol (which decides), a transport (which moves bytes), the
// parent connections and the tile pipeline (which sums). Start reading at turn(), the loop's body.
// Memory, transport and clock are arguments, so tests and simulations run many shards in one thread
// without DPDK. When memory runs out, turn() throws std::bad_alloc, and run() goes on with the next
// turn.
class Shard {
 public:
  // Borrows `transport` and the objects that `config` points at; they must outlive
  // the shard. Throws when memory runs out.
  Shard(const ShardConfig& config, transport::Transport& transport);

  // Runs one turn of the loop: each duty at most once. Returns true when there was work. Never
  // waits.
  bool turn(Nanos now);

  // Runs turns on this thread, by the clock, until `stop`. Waits between turns by IdlePolicy; with
  // `busy` it never waits.
  void run(const std::atomic<bool>& stop, bool busy);

  // Only the shard's thread calls the functions from here to remove_parent_connection(). Other
  // threads post() a task that calls them.
  protocol::Aggregator& protocol() { return protocol_; }
  const protocol::Aggregator& protocol() const { return protocol_; }
  // Returns which operation of the job does not go on, and why. Precondition: the job is there.
  protocol::Health health(protocol::JobId job, Nanos now) const;
  const CycleClock& clock() const { return clock_; }
  // The caller must call this before it adds a job whose vertices have so many children (ranks and
  // child nodes).
  void expect_children(std::size_t children) { pipeline_.pool().expect_children(children); }
  // Removes a job. Precondition: the transport has let go of all peers of the job.
  void remove_job(protocol::JobId job);
  // Adds the connection with a parent node. Then protocol().join_parent() must name it in the same
  // task, because the shard treats earlier messages of the parent as a breach of the protocol.
  // `parent_id` is a small number that no other parent connection of the shard has. The shard
  // borrows the parent connection until remove_parent_connection(). The parent connection's buffers
  // must have at least layout.total_bytes() bytes.
  void add_parent_connection(protocol::ParentId parent_id, ParentConnection& parent_connection,
                             std::uint32_t shard, const protocol::BufferLayout& layout);
  // Sends the messages that remain for the parent connection, then removes it. Precondition: the
  // protocol no longer sends to it, and no tile uses its buffers. That holds after
  // protocol().parent_gone() when no tile of its job is in flight, and after remove_job().
  void remove_parent_connection(protocol::ParentId parent_id);

  // The control thread calls the functions below.
  void post(Mailbox::OwnedTask task) noexcept { mailbox_.post(std::move(task)); }
  void post(Mailbox::Task task) { mailbox_.post(std::make_unique<Mailbox::Task>(std::move(task))); }
  // Sets a callback. The shard's thread calls it for each lost peer, after the peer's operations
  // have failed.
  void on_lost(std::function<void(transport::Peer)> callback) { on_lost_ = std::move(callback); }
  // Sets the same callback for lost parent connections.
  void on_parent_lost(std::function<void(protocol::ParentId)> callback) {
    on_parent_lost_ = std::move(callback);
  }
  const ShardCounters& counters() const { return counters_; }
  std::size_t tiles_in_flight() const { return pipeline_.pool().in_flight(); }

 private:
  std::size_t receive_notices(Nanos now);
  void receive_tree_message(const transport::Received& received, Nanos now);
  Status admissible(transport::Peer peer, const wire::Notice& notice) const;
  std::size_t receive_from_parents(Nanos now);
  std::size_t send_completions();
  std::size_t send_tree_messages();
  std::size_t do_chores(Nanos now);
  void disconnect_stuck();
  std::size_t report_lost_peers();
  std::size_t report_lost_parents();
  std::size_t run_tasks();
  bool turn_within_memory(Nanos now);
  void sleep(Nanos now);

  const bool checks_checksums_;
  transport::Transport& transport_;
  protocol::Aggregator protocol_;
  Mailbox mailbox_;
  ShardCounters counters_;
  CycleClock clock_;  // constant within a turn until run() starts it
  std::function<void(transport::Peer)> on_lost_;
  std::function<void(protocol::ParentId)> on_parent_lost_;
  ParentConnections parents_;
  TilePipeline pipeline_;
  Nanos next_chores_ = 0;

  // Buffers for bursts. Turns reuse them.
  std::vector<transport::Received> received_;
  std::vector<transport::Message> messages_;
  std::vector<pollfd> polled_;
};

}  // namespace tally::engine
