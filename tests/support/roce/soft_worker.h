// For tests: a worker's end of a connection to the transport roce, and a network between the two.
// It stands for a worker with an RDMA adapter: a region, and both halves of a queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/containers/ring.h"
#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::testing {

// A packet and its payload.
struct OnTheWire {
  transport::roce::Packet packet{};
  std::vector<std::byte> payload{};
};

class SoftWorker : public transport::roce::ReachableMemory {
 public:
  static constexpr std::uint32_t kKey = 0x1234;
  static constexpr std::uint64_t kAddress = 0x7f0000000000;

  SoftWorker(const transport::roce::IpAddress& address, std::size_t region_bytes,
             std::uint32_t mtu);

  // For the next connection.
  void set_mtu(std::uint32_t mtu) { options_.mtu = mtu; }
  transport::verbs::Address address() const;
  // The node's answer to address().
  void connect(const transport::verbs::Address& node);
  // Sends bytes as one message.
  void send(std::vector<std::byte> message, std::optional<std::uint32_t> immediate = {});

  void receive(const OnTheWire& arrived, Nanos now);
  // What it sends now.
  std::vector<OnTheWire> poll(Nanos now);

  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  transport::roce::Right right) const override;

  mutable std::vector<std::byte> region;
  bool is_registered = true;
  std::deque<std::vector<std::byte>> messages;  // that have arrived
  std::size_t congestion_notices = 0;           // that have arrived
  std::uint32_t number = 0x77;

 private:
  OnTheWire on_the_wire(const transport::roce::Outgoing& outgoing) const;

  transport::roce::IpAddress address_;
  transport::roce::IpAddress node_{};
  std::uint32_t node_number_ = 0;
  transport::roce::PairOptions options_;
  std::optional<transport::roce::Requester> requester_;
  std::optional<transport::roce::Responder> responder_;
  std::deque<std::vector<std::byte>> sent_;  // stay, because they may be sent again
  std::vector<std::byte> message_;           // that is arriving
};

// The node's port. What it sends goes to the workers, and the reverse, in move().
class FakeLink : public transport::roce::Link {
 public:
  std::size_t receive(std::span<transport::roce::Arrival> out, Nanos now) override;
  bool send(transport::roce::Packet& packet, View payload, transport::roce::Payload kind) override;
  void flush() override {}
  transport::roce::PortCounters counters() const override { return {}; }
  std::optional<transport::roce::Route> route_to(const transport::roce::IpAddress& target,
                                                 Nanos now) override;

  std::deque<OnTheWire> to_node;
  std::deque<OnTheWire> from_node;
  bool knows_routes = true;
  std::size_t route_questions = 0;
  transport::roce::MacAddress worker_mac{2, 9, 0, 0, 0, 2};
  std::vector<transport::roce::Payload> kinds;  // of payloads that were sent
  bool in_pieces = true;                        // each payload comes in two
  std::size_t room = SIZE_MAX;                  // of packets in from_node

 private:
  std::deque<OnTheWire> taken_;  // their payloads are borrowed by Arrivals
};

}  // namespace tally::testing
