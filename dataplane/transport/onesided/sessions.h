// The peers that are attached to a one-sided transport. A session holds the peer's regions, what
// waits for its connection, and whether the peer is lost. The transport's own sessions derive from
// it. A lost session stays, with its connection, until control detaches the peer.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/containers/fifo.h"
#include "dataplane/transport/onesided/operation_pool.h"
#include "dataplane/transport/onesided/stall_watch.h"
#include "dataplane/transport/region_table.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// Memory of a peer, as the network names it.
struct Region {
  std::uint64_t base = 0;  // address of its first byte, as the peer gives it
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;  // remote key
};

// One thread.
struct Session {
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Nothing when the peer has no such memory.
  std::optional<Remote> remote(const Range& range) const;
  // Marks the session broken for this reason; the first reason stays.
  void refuse(std::string reason);
  // The network has the operation, until ended().
  void started(Operation& operation) {
    operation.under_way = true;
    watch.start();
  }
  // Counts the operation's end, also of one that was not started.
  void ended(Operation& operation) {
    if (operation.eager) --eager;
    if (std::exchange(operation.under_way, false)) watch.end();
  }

  bool broken = false;    // the transport no longer serves it; lost() reports it
  std::string why;        // the reason for broken
  bool reported = false;  // lost() has reported it
  bool marked = false;    // Outgoing has something to start for it at the end of the burst
  RegionTable<Region> regions;
  Fifo<std::uint32_t> reads;     // indices of pulls that wait to be started
  Fifo<std::uint32_t> writes;    // of pushes that wait; they go first because they end tiles
  Fifo<RingEntry> completions;   // messages that wait to be sent
  std::size_t eager_writes = 0;  // eager ones in writes; they go before the next completion
  std::size_t eager = 0;         // all eager operations that have not ended
  StallWatch watch;
};

// One thread. Throws std::bad_alloc without memory.
class Sessions {
 public:
  // The session of the peer; null when the peer is not attached.
  Session* attached(Peer peer) const {
    return peer < sessions_.size() ? sessions_[peer].get() : nullptr;
  }
  // The same, but null also when the session is broken.
  Session* serving(Peer peer) const {
    Session* session = attached(peer);
    return session != nullptr && !session->broken ? session : nullptr;
  }
  void add(Peer peer, std::unique_ptr<Session> session);
  // Precondition: the peer is attached.
  void remove(Peer peer) { sessions_[peer].reset(); }
  const auto& all() const { return sessions_; }  // by Peer; null when not attached
  std::size_t attached_count() const;

  // Finds the peers that no longer respond. Writes all peers that are lost, each once, and returns
  // how many it wrote.
  std::size_t lost(std::span<Peer> out, Nanos now);
  // Some peer is lost and lost() has not reported it yet.
  bool has_lost() const;

 private:
  std::vector<std::unique_ptr<Session>> sessions_;  // by Peer
  Nanos last_watch_ = 0;                            // time of the last lost()
};

}  // namespace tally::transport::onesided
