// This end of a connection of the shard: a queue pair, the way to its peer, and what waits to be
// sent there. RoceTransport has one for each worker, and one for each shard of a parent node
// (parent_pair.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/containers/ring.h"
#include "dataplane/transport/roce/held_arrivals.h"
#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/pair/congestion_window.h"
#include "dataplane/transport/roce/pair/permits.h"
#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "dataplane/transport/roce/sends.h"

namespace tally::transport::roce {

class Endpoint;

struct Counters {
  std::uint64_t received = 0;  // packets for a connection of this transport
  std::uint64_t sent = 0;
  std::uint64_t again = 0;           // sent a second time
  std::uint64_t reads_repaired = 0;  // READs for what was missing of others
  std::uint64_t out_of_order = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t strangers = 0;      // packets to no queue pair, or from another address
  std::uint64_t marked = 0;         // packets that a switch has marked as congested
  std::uint64_t notices_sent = 0;   // of congestion, to peers
  std::uint64_t notices_taken = 0;  // of congestion, from peers
};

// What the endpoints of a shard share.
struct EndpointContext {
  Link& link;
  IpAddress address{};           // of the port
  std::span<std::byte> tiles{};  // memory from which the port can send without a copy; borrowed
  std::uint32_t window = 0;      // packets on their way, of all connections
  Permits permits{};
  HeldArrivals held{};
  Counters counters{};
  // Memory for messages in several pieces. Few endpoints are in the middle of one.
  std::vector<std::byte> spare_message{};
  std::size_t endpoints = 0;
  // These two have room for all endpoints.
  std::vector<Endpoint*> busy{};        // have something to send or to wait for
  std::vector<Endpoint*> still_busy{};  // those whose turn is to come
  std::size_t users = 0;                // that were busy at the begin of the turn
};

// The names of a connection's ends, as control exchanges them.
struct Ends {
  std::uint32_t number = 0;  // of this end's queue pair
  std::uint32_t peer_number = 0;
  IpAddress peer{};
};

// One thread: the shard's.
class Endpoint {
 public:
  // `context` and `memory`, which the peer may reach, are borrowed. The peer's messages have
  // `most_message` bytes at most. Asks for the route at once, because the answer to the peer's
  // first packet needs it.
  Endpoint(EndpointContext& context, const PairOptions& options, const Ends& ends,
           const ReachableMemory& memory, std::size_t most_message);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Ends& ends() const { return ends_; }
  std::uint32_t mtu() const { return mtu_; }
  // Takes a packet from the peer. The arrival may be moved from.
  void take(Arrival& arrival, Nanos now);
  // Does what is due and sends what can be sent, until its next turn.
  void progress(Nanos now);
  void pump(Nanos now);
  // Sends a message. False without room.
  bool send(const RingEntry& message);
  void post_receives(std::uint32_t count) { responder_.post_receives(count); }
  // Adds what this connection has counted.
  void count(Counters& counters) const;

 protected:
  ~Endpoint() = default;
  // Drops what it keeps of the peer's packets. The last call.
  void end();

  // False without room for it, and after a failure.
  bool post(const Work& work);
  // It gets a turn soon.
  void mark_busy();
  bool has_failed() const { return requester_.failure() != Failure::kNone; }

  // -- what a user of connections adds
  // Whether nothing of the peer is taken any more.
  virtual bool is_broken() const = 0;
  virtual void refuse(std::string reason) = 0;  // the connection is broken
  virtual void on_message(const RingEntry& message, std::span<const std::byte> more) = 0;
  // `id`: that of the work. Only of READs.
  virtual void on_arrived(const Arrived&, Arrival&) {}
  virtual void on_done(const Done& done) = 0;
  virtual void on_got_through() {}  // bytes, in either direction
  virtual void on_turn() {}         // at the end of progress()

 private:
  class ReadPermit final : public Permit {
   public:
    ReadPermit(Permits& permits, Endpoint& endpoint) : Permit(permits), endpoint_(endpoint) {}

   private:
    void on_given() override { endpoint_.mark_busy(); }
    Endpoint& endpoint_;
  };

  void take_request(Arrival& arrival, Nanos now);
  void deliver();
  void take_part(const Delivery& part, const Arrival& arrival);
  void take_message();
  void take_done();
  bool find_route(Nanos now);
  bool next(Outgoing& outgoing, Nanos now);
  bool emit(const Outgoing& outgoing);
  void notify();
  void adapt(Nanos now);
  bool has_more_to_do() const;

  EndpointContext& context_;
  const Ends ends_;
  const std::uint32_t mtu_;
  const std::size_t most_message_;
  Requester requester_;
  Responder responder_;
  CongestionWindow congestion_;
  ReadPermit permit_;
  std::uint16_t source_port_ = 0;
  bool has_route_ = false;
  bool busy_ = false;  // in context_.busy
  Nanos route_until_ = 0;
  Route route_{};
  std::uint64_t got_through_ = 0;  // packets that the congestion window knows
  std::uint64_t losses_ = 0;       // likewise
  Nanos noticed_ = 0;              // the peer was told of congestion
  bool owes_notice_ = false;
  Sends sends_;
  std::vector<std::byte> message_;  // that is arriving
  std::optional<Outgoing> unsent_;  // the link had no room for it
};

}  // namespace tally::transport::roce
