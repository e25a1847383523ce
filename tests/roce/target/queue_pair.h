// A queue pair of a target: drives a Requester and a Responder over a Link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/transport/roce/held_arrivals.h"
#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/pair/congestion_window.h"
#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "tests/roce/target/exchange.h"

namespace tally::transport::roce::target {

// What a pair has done: numbers of packets, except for those that say otherwise.
struct PairCounters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t again = 0;         // of sent: requests that were sent before
  std::uint64_t out_of_order = 0;  // requests that came before an earlier one
  std::uint64_t duplicates = 0;    // requests that came again
  std::uint64_t messages = 0;      // SENDs and WRITEs that have arrived
  std::uint64_t read_bytes = 0;    // of answers to the peer's READs
};

class QueuePair {
 public:
  // READs that either end answers at a time, at most.
  static constexpr std::uint32_t kReads = 16;

  // link and memory are borrowed. part: of the memory; the peer learns its address and `key`.
  QueuePair(Link& link, const IpAddress& address, const ReachableMemory& memory,
            std::span<std::byte> part, std::uint32_t key);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const Endpoint& own() const { return own_; }
  const Endpoint& peer() const { return peer_; }
  std::span<std::byte> part() const { return part_; }
  bool is_for(const Packet& packet) const {
    return requester_ && packet.pair == own_.number && packet.route.source == peer_.gid;
  }

  // window: packets that may be on their way, at most; fewer after losses.
  void connect(const Endpoint& peer, std::uint32_t mtu, std::uint32_t window);
  // Gets each message that a SEND brings.
  void on_message(std::function<void(std::span<const std::byte>)> handler) {
    handler_ = std::move(handler);
  }

  bool has_room(const Work& work) const { return requester_->room_for(work) <= requester_->room(); }
  // Precondition: has_room(), and failure() is empty. destination: of a READ's bytes; borrowed,
  // like work.source, until the work is done.
  void post(const Work& work, std::byte* destination = nullptr);
  std::uint64_t posted() const { return posted_; }
  std::uint64_t done() const { return done_; }

  // Takes a packet that is_for() this pair.
  void receive(Arrival& arrival, Nanos now);
  // Does what is due, and sends what it may. True: it has sent something.
  bool progress(Nanos now);

  // Empty: the connection stands.
  std::string failure() const;
  PairCounters counters() const;

 private:
  bool find_route(Nanos now);
  void adapt(Nanos now);
  bool next(Outgoing& outgoing, Nanos now);
  bool emit(const Outgoing& outgoing);
  void take_answer(const Arrival& arrival, Nanos now);
  void take_request(Arrival& arrival, Nanos now);
  void deliver(const Delivery& part, const Arrival& arrival);

  Link& link_;
  const ReachableMemory& memory_;
  std::span<std::byte> part_;
  Endpoint own_;
  Endpoint peer_{};
  std::uint16_t source_port_;
  std::optional<Route> route_;
  std::optional<Requester> requester_;
  std::optional<Responder> responder_;
  std::optional<CongestionWindow> congestion_;
  std::uint64_t losses_ = 0;        // that the congestion window knows
  std::optional<Outgoing> unsent_;  // the link had no room for it
  std::function<void(std::span<const std::byte>)> handler_;
  std::vector<std::byte> message_;                              // that is arriving
  std::unordered_map<std::uint64_t, std::byte*> destinations_;  // of READs, by the id of the work
  HeldArrivals held_;
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  PairCounters counters_;
};

}  // namespace tally::transport::roce::target
