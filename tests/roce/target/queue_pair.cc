#include "tests/roce/target/queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/random_number.h"
#include "dataplane/transport/roce/pair/outgoing_packet.h"
#include "tests/roce/target/memory_window.h"

namespace tally::transport::roce::target {
namespace {

constexpr std::uint32_t kFirstNumber = 16;  // smaller ones have meanings of their own
constexpr std::uint32_t kReceives = 4096;   // messages that may be on their way to this end
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr int kBurst = 32;  // packets of a pair, before others have their turn
// Longer than usual, because soft-RoCE in an emulated machine is slow.
constexpr Nanos kAckTimeout = 500 * kMillisecond;

std::uint32_t random_below(std::uint32_t limit) {
  return static_cast<std::uint32_t>(random_number() % limit);
}

void copy(const Arrival& arrival, std::byte* to) {
  for (const Span& piece : arrival.payload()) {
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
}

}  // namespace

QueuePair::QueuePair(Link& link, const IpAddress& address, const ReachableMemory& memory,
                     std::span<std::byte> part, std::uint32_t key)
    : link_(link),
      memory_(memory),
      part_(part),
      own_{.number = kFirstNumber + random_below(Psn::kCount - kFirstNumber),
           .first_psn = random_below(Psn::kCount),
           .gid = address,
           .reads = kReads,
           .key = key,
           .address = MemoryWindow::address_of(part)},
      source_port_(static_cast<std::uint16_t>(kFirstSourcePort |
                                              random_below(UINT16_MAX - kFirstSourcePort + 1))) {}

QueuePair::~QueuePair() = default;

void QueuePair::connect(const Endpoint& peer, std::uint32_t mtu, std::uint32_t window) {
  PairOptions options;
  options.first_sent = Psn(own_.first_psn);
  options.first_expected = Psn(peer.first_psn);
  options.mtu = mtu;
  options.reads_out = std::clamp(peer.reads, 1U, kReads);
  options.reads_in = kReads;
  options.ack_timeout = kAckTimeout;
  peer_ = peer;
  requester_.emplace(options);
  congestion_.emplace(window);
  responder_.emplace(options, memory_);
  responder_->post_receives(kReceives);
}

// -- what goes out -------------------------------------------------------------------------------

void QueuePair::post(const Work& work, std::byte* destination) {
  if (destination != nullptr) destinations_[work.id] = destination;
  requester_->post(work);
  ++posted_;
}

bool QueuePair::find_route(Nanos now) {
  const auto route = link_.route_to(peer_.gid, now);
  if (route) {
    route_ = *route;
    route_->source = own_.gid;
    route_->target = peer_.gid;
    route_->source_port = source_port_;
    route_->traffic_class = kEcnCapable;
  }
  return route_.has_value();
}

// Answers go first, because the peer waits for them.
bool QueuePair::next(Outgoing& outgoing, Nanos now) {
  if (unsent_) {
    outgoing = *std::exchange(unsent_, std::nullopt);
    return true;
  }
  return responder_->next(outgoing) || requester_->next(outgoing, now);
}

void QueuePair::adapt(Nanos now) {
  const RequesterCounters& counted = requester_->counters();
  const std::uint64_t losses = counted.again + counted.reads_repaired + counted.timeouts;
  if (std::exchange(losses_, losses) != losses) congestion_->congested(now);
  requester_->set_window(congestion_->packets());
}

bool QueuePair::progress(Nanos now) {
  if (!requester_) return false;
  requester_->tick(now);
  responder_->tick(now);
  adapt(now);
  for (Done done; requester_->next_done(done);) {
    destinations_.erase(done.id);
    if (done.fine) ++done_;
  }
  if (!find_route(now)) return false;
  bool has_sent = false;
  Outgoing outgoing;
  for (int i = 0; i < kBurst && next(outgoing, now); ++i, outgoing = {}) {
    if (!emit(outgoing)) {
      unsent_ = outgoing;
      break;
    }
    has_sent = true;
  }
  return has_sent;
}

bool QueuePair::emit(const Outgoing& outgoing) {
  Packet packet = packet_of(outgoing, *route_, peer_.number);
  const Span span{outgoing.payload, outgoing.bytes};
  const View view = outgoing.bytes > 0 ? View(&span, 1) : View();
  if (!link_.send(packet, view, Payload::kLent)) {
    link_.flush();
    if (!link_.send(packet, view, Payload::kLent)) return false;
  }
  ++counters_.sent;
  if (facts_of(outgoing.opcode).kind == Kind::kReadResponse) {
    counters_.read_bytes += outgoing.bytes;
  }
  return true;
}

// -- what comes in -------------------------------------------------------------------------------

void QueuePair::receive(Arrival& arrival, Nanos now) {
  ++counters_.received;
  switch (facts_of(arrival.packet.opcode).kind) {
    case Kind::kAcknowledge:
    case Kind::kReadResponse:
      return take_answer(arrival, now);
    case Kind::kOther:
      return congestion_->congested(now);
    default:
      return take_request(arrival, now);
  }
}

void QueuePair::take_answer(const Arrival& arrival, Nanos now) {
  congestion_->arrived(1);
  const auto arrived = requester_->receive(arrival.packet, now);
  if (!arrived) return;
  const auto found = destinations_.find(arrived->id);
  if (found != destinations_.end()) copy(arrival, found->second + arrived->offset);
}

void QueuePair::take_request(Arrival& arrival, Nanos now) {
  const std::uint64_t handle = held_.hold(arrival);
  if (!responder_->receive(held_[handle].packet, handle, now)) held_.drop(handle);
  for (Delivery part; responder_->next_delivery(part);) {
    deliver(part, held_[part.handle]);
    held_.drop(part.handle);
  }
}

void QueuePair::deliver(const Delivery& part, const Arrival& arrival) {
  counters_.messages += part.ends ? 1 : 0;
  if (!part.is_message) {
    if (part.bytes > 0) copy(arrival, part.target);
    if (part.immediate) responder_->post_receives(1);
    return;
  }
  const std::size_t at = part.begins ? 0 : message_.size();
  message_.resize(at + part.bytes);
  copy(arrival, message_.data() + at);
  if (!part.ends) return;
  responder_->post_receives(1);
  if (handler_) handler_(message_);
}

// -- how it went ---------------------------------------------------------------------------------

std::string QueuePair::failure() const {
  if (!requester_) return "";
  if (requester_->failure() != Failure::kNone) return to_text(requester_->failure());
  return responder_->has_failed() ? "it sent a request that this end refuses" : "";
}

PairCounters QueuePair::counters() const {
  PairCounters all = counters_;
  if (!requester_) return all;
  all.again = requester_->counters().again;
  all.out_of_order = responder_->counters().early;
  all.duplicates = responder_->counters().duplicates;
  return all;
}

}  // namespace tally::transport::roce::target
