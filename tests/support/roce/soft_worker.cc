#include "tests/support/roce/soft_worker.h"

#include <algorithm>
#include <cstring>

#include "dataplane/transport/roce/pair/outgoing_packet.h"

namespace tally::testing {

using namespace transport::roce;
using transport::verbs::Address;

SoftWorker::SoftWorker(const IpAddress& address, std::size_t region_bytes, std::uint32_t mtu)
    : region(region_bytes), address_(address) {
  options_.mtu = mtu;
  options_.first_sent = Psn(0xfffffe);
}

Address SoftWorker::address() const {
  Address address;
  address.number = number;
  address.first_packet = options_.first_sent.number();
  address.mtu = IBV_MTU_256;
  while (transport::verbs::bytes_of(static_cast<ibv_mtu>(address.mtu)) < options_.mtu) {
    ++address.mtu;
  }
  address.reads_in = 16;
  address.ethernet = 1;
  std::memcpy(address.gid.raw, address_.data(), address_.size());
  return address;
}

void SoftWorker::connect(const Address& node) {
  node_number_ = node.number;
  std::memcpy(node_.data(), node.gid.raw, node_.size());
  options_.first_expected = Psn(node.first_packet);
  requester_.emplace(options_);
  responder_.emplace(options_, *this);
  responder_->post_receives(64);
}

void SoftWorker::send(std::vector<std::byte> message, std::optional<std::uint32_t> immediate) {
  sent_.push_back(std::move(message));
  requester_->post({.kind = WorkKind::kSend,
                    .id = sent_.size(),
                    .source = sent_.back().data(),
                    .bytes = sent_.back().size(),
                    .immediate = immediate});
}

std::byte* SoftWorker::find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                            Right) const {
  const std::uint64_t at = address - kAddress;
  const bool is_inside = at <= region.size() && bytes <= region.size() - at;
  return is_registered && key == kKey && is_inside ? region.data() + at : nullptr;
}

void SoftWorker::receive(const OnTheWire& arrived, Nanos now) {
  switch (facts_of(arrived.packet.opcode).kind) {
    case Kind::kOther:
      ++congestion_notices;
      return;
    case Kind::kAcknowledge:
    case Kind::kReadResponse:
      requester_->receive(arrived.packet, now);
      return;
    default:
      break;
  }
  // Without loss the deliveries of a packet follow it at once, so one handle is enough.
  responder_->receive(arrived.packet, 0, now);
  for (Delivery part; responder_->next_delivery(part);) {
    if (!part.is_message) {
      if (part.bytes > 0) std::memcpy(part.target, arrived.payload.data(), part.bytes);
      continue;
    }
    message_.insert(message_.end(), arrived.payload.begin(), arrived.payload.end());
    if (!part.ends) continue;
    messages.push_back(std::move(message_));
    message_.clear();
    responder_->post_receives(1);
  }
}

OnTheWire SoftWorker::on_the_wire(const Outgoing& outgoing) const {
  const Route route{.source = address_, .target = node_};
  OnTheWire made{packet_of(outgoing, route, node_number_), {}};
  if (outgoing.bytes > 0) made.payload.assign(outgoing.payload, outgoing.payload + outgoing.bytes);
  return made;
}

std::vector<OnTheWire> SoftWorker::poll(Nanos now) {
  requester_->tick(now);
  responder_->tick(now);
  std::vector<OnTheWire> packets;
  for (Outgoing one; responder_->next(one); one = {}) packets.push_back(on_the_wire(one));
  for (Outgoing one; requester_->next(one, now); one = {}) packets.push_back(on_the_wire(one));
  return packets;
}

std::size_t FakeLink::receive(std::span<Arrival> out, Nanos) {
  std::size_t count = 0;
  for (; count < out.size() && !to_node.empty(); ++count) {
    taken_.push_back(std::move(to_node.front()));
    to_node.pop_front();
    const OnTheWire& one = taken_.back();
    Arrival& arrival = out[count];
    arrival = Arrival();
    arrival.packet = one.packet;
    // In two pieces, as buffers that are smaller than the frame give it.
    const std::size_t first = in_pieces ? one.payload.size() / 2 : one.payload.size();
    if (first > 0) arrival.spans[arrival.span_count++] = {one.payload.data(), first};
    if (one.payload.size() > first) {
      arrival.spans[arrival.span_count++] = {one.payload.data() + first,
                                             one.payload.size() - first};
    }
  }
  return count;
}

bool FakeLink::send(Packet& packet, View payload, Payload kind) {
  if (from_node.size() >= room) return false;
  if (!payload.empty()) kinds.push_back(kind);
  OnTheWire sent{packet, {}};
  for (const Span& piece : payload) {
    sent.payload.insert(sent.payload.end(), piece.data, piece.data + piece.bytes);
  }
  sent.packet.payload = static_cast<std::uint32_t>(sent.payload.size());
  from_node.push_back(std::move(sent));
  return true;
}

std::optional<Route> FakeLink::route_to(const IpAddress&, Nanos) {
  ++route_questions;
  if (!knows_routes) return std::nullopt;
  return Route{.source_mac = {2, 9, 0, 0, 0, 1}, .target_mac = worker_mac};
}

}  // namespace tally::testing
