#include "dataplane/transport/roce/endpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/random_number.h"
#include "dataplane/transport/roce/pair/outgoing_packet.h"

namespace tally::transport::roce {
namespace {

// What the id of a Work says: a message of this class, or work of the derived class.
constexpr std::uint64_t kMessage = 1ULL << 63;
constexpr Nanos kNoticeEach = 50'000;
constexpr Nanos kRouteLives = kSecond;  // then it is looked up again, because machines move
constexpr int kPumpBurst = 32;          // packets, before other endpoints have their turn
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr std::array<std::byte, 16> kNoticeBody{};

}  // namespace

Endpoint::Endpoint(EndpointContext& context, const PairOptions& options, const Ends& ends,
                   const ReachableMemory& memory, std::size_t most_message)
    : context_(context),
      ends_(ends),
      mtu_(options.mtu),
      most_message_(most_message),
      requester_(options),
      responder_(options, memory),
      congestion_(context.window),
      permit_(context.permits, *this),
      source_port_(static_cast<std::uint16_t>(
          kFirstSourcePort | random_number() % (UINT16_MAX - kFirstSourcePort + 1))) {
  const std::size_t endpoints = ++context_.endpoints;
  context_.busy.reserve(endpoints);
  context_.still_busy.reserve(endpoints);
  static_cast<void>(find_route(monotonic_now()));
}

void Endpoint::end() {
  responder_.for_each_kept([this](std::uint64_t handle) { context_.held.drop(handle); });
  count(context_.counters);
  std::erase(context_.busy, this);
  std::erase(context_.still_busy, this);
  --context_.endpoints;
}

void Endpoint::count(Counters& counters) const {
  counters.again += requester_.counters().again;
  counters.reads_repaired += requester_.counters().reads_repaired;
  counters.out_of_order += responder_.counters().early;
  counters.duplicates += responder_.counters().duplicates;
}

void Endpoint::mark_busy() {
  if (busy_) return;
  context_.busy.push_back(this);
  busy_ = true;
}

// -- what goes out -------------------------------------------------------------------------------

bool Endpoint::post(const Work& work) {
  if (has_failed() || requester_.room_for(work) > requester_.room()) return false;
  requester_.post(work);
  mark_busy();
  return true;
}

bool Endpoint::send(const RingEntry& message) {
  if (has_failed() || requester_.room() == 0) return false;
  const auto number = sends_.add(message);
  if (!number) return false;
  return post({.kind = WorkKind::kSend,
               .id = kMessage | *number,
               .source = sends_[*number].bytes,
               .bytes = sizeof message.bytes});
}

bool Endpoint::find_route(Nanos now) {
  if (has_route_ && now < route_until_) return true;
  const auto route = context_.link.route_to(ends_.peer, now);
  if (!route) return has_route_;
  route_until_ = now + kRouteLives;
  route_ = *route;
  route_.source = context_.address;
  route_.target = ends_.peer;
  route_.source_port = source_port_;
  route_.traffic_class = kEcnCapable;
  return has_route_ = true;
}

// Answers go first, because the peer waits for them.
bool Endpoint::next(Outgoing& outgoing, Nanos now) {
  if (unsent_) {
    outgoing = *unsent_;
    unsent_.reset();
    return true;
  }
  return responder_.next(outgoing) || requester_.next(outgoing, now);
}

void Endpoint::pump(Nanos now) {
  if (!find_route(now)) return;
  adapt(now);
  if (owes_notice_) notify();
  Outgoing outgoing;
  for (int i = 0; i < kPumpBurst && next(outgoing, now); ++i, outgoing = {}) {
    if (!emit(outgoing)) {
      unsent_ = outgoing;
      return;
    }
  }
}

bool Endpoint::emit(const Outgoing& outgoing) {
  Packet packet = packet_of(outgoing, route_, ends_.peer_number);
  const Span payload{outgoing.payload, outgoing.bytes};
  const View view = outgoing.bytes > 0 ? View(&payload, 1) : View();
  // Other memory than that of the tiles is not the EAL's.
  const std::span tiles = context_.tiles;
  const bool is_tile =
      outgoing.payload >= tiles.data() && outgoing.payload < tiles.data() + tiles.size();
  const Payload kind = is_tile ? Payload::kLent : Payload::kCopied;
  if (!context_.link.send(packet, view, kind)) {
    context_.link.flush();
    if (!context_.link.send(packet, view, kind)) return false;
  }
  ++context_.counters.sent;
  return true;
}

// Tells the peer that what it sends meets congestion (annex A17, congestion notification packets).
void Endpoint::notify() {
  owes_notice_ = false;
  const Outgoing notice{.opcode = Opcode::kCongestion,
                        .payload = kNoticeBody.data(),
                        .bytes = static_cast<std::uint32_t>(kNoticeBody.size())};
  if (!emit(notice)) return;
  ++context_.counters.notices_sent;
  context_.link.flush();
  noticed_ = monotonic_now();  // when it has left, because the turn may have begun long before
}

// The windows of a connection: its share of the shard's, and less after losses.
void Endpoint::adapt(Nanos now) {
  const RequesterCounters& counted = requester_.counters();
  if (const std::uint64_t before = std::exchange(got_through_, counted.got_through);
      before != got_through_) {
    congestion_.arrived(static_cast<std::uint32_t>(got_through_ - before));
    on_got_through();
  }
  const std::uint64_t losses = counted.reads_repaired + counted.timeouts;
  if (std::exchange(losses_, losses) != losses) congestion_.congested(now);
  const auto users =
      static_cast<std::uint32_t>(std::max({context_.users, context_.busy.size(), std::size_t{1}}));
  const auto allows = permit_.update({.outstanding = requester_.long_reads_outstanding() > 0,
                                      .waiting = requester_.long_reads_waiting() > 0});
  const bool holds = allows == Permit::Allows::kAll;
  const std::uint32_t sharers = holds ? std::min<std::uint32_t>(users, Permits::kAtATime) : users;
  const std::uint32_t share = std::max(context_.window / sharers, CongestionWindow::kLeast);
  Requester::Windows windows;
  windows.all = windows.reads = std::min(congestion_.packets(), share);
  if (allows == Permit::Allows::kLittle) windows.reads = CongestionWindow::kLeast;
  windows.long_reads = allows != Permit::Allows::kShort;
  requester_.set_windows(windows);
}

// -- what comes in -------------------------------------------------------------------------------

void Endpoint::progress(Nanos now) {
  busy_ = false;
  requester_.tick(now);
  responder_.tick(now);
  pump(now);
  take_done();
  on_turn();
  if (has_more_to_do()) mark_busy();
}

bool Endpoint::has_more_to_do() const {
  if (requester_.timer() != Requester::kNever || responder_.timer() != Requester::kNever ||
      unsent_ || (has_route_ && responder_.has_answers())) {
    return true;
  }
  return requester_.room() < Requester::kMostRequests && !permit_.waits();
}

void Endpoint::take(Arrival& arrival, Nanos now) {
  const Packet& packet = arrival.packet;
  mark_busy();
  if (packet.is_congested()) {
    ++context_.counters.marked;
    owes_notice_ = now - noticed_ >= kNoticeEach;
    // What is marked is what this end has asked for, too.
    congestion_.congested(now);
  }
  switch (facts_of(packet.opcode).kind) {
    case Kind::kAcknowledge:
    case Kind::kReadResponse:
      if (const auto arrived = requester_.receive(packet, now)) on_arrived(*arrived, arrival);
      return;
    case Kind::kOther:
      ++context_.counters.notices_taken;
      return congestion_.congested(now);
    default:
      return take_request(arrival, now);
  }
}

void Endpoint::take_request(Arrival& arrival, Nanos now) {
  if (is_broken() || (context_.held.is_full() && responder_.is_early(arrival.packet))) return;
  const std::uint64_t handle = context_.held.hold(arrival);
  if (!responder_.receive(context_.held[handle].packet, handle, now)) context_.held.drop(handle);
  deliver();
  if (responder_.has_failed()) refuse("it sent what this connection does not allow");
}

void Endpoint::deliver() {
  for (Delivery part; responder_.next_delivery(part);) {
    const Arrival& arrival = context_.held[part.handle];
    if (part.is_message) {
      take_part(part, arrival);
    } else if (part.bytes > 0) {
      std::byte* target = part.target;
      for (const Span& piece : arrival.payload()) {
        std::memcpy(target, piece.data, piece.bytes);
        target += piece.bytes;
      }
    }
    context_.held.drop(part.handle);
  }
}

// With a probe or an empty message, a client finds out whether the connection still stands.
void Endpoint::take_part(const Delivery& part, const Arrival& arrival) {
  // A client's first message, as long as a packet can be. Its bytes have no meaning.
  if (part.begins && part.ends && part.immediate) return responder_.post_receives(1);
  if (part.begins) message_ = std::exchange(context_.spare_message, {});
  message_.reserve(most_message_);
  if (message_.size() + part.bytes <= most_message_) {
    for (const Span& piece : arrival.payload()) {
      message_.insert(message_.end(), piece.data, piece.data + piece.bytes);
    }
  } else {
    refuse("it sent a message that is too long");
  }
  if (!part.ends) return;
  responder_.post_receives(1);
  if (!is_broken() && !part.immediate && !message_.empty()) take_message();
  context_.spare_message = std::exchange(message_, {});
  context_.spare_message.clear();
}

void Endpoint::take_message() {
  if (message_.size() < sizeof(RingEntry)) return refuse("it sent a message that is too short");
  RingEntry message;
  std::memcpy(message.bytes, message_.data(), sizeof message.bytes);
  on_message(message, std::span(message_).subspan(sizeof message.bytes));
}

void Endpoint::take_done() {
  for (Done done; requester_.next_done(done);) {
    if ((done.id & kMessage) != 0) {
      const auto number = static_cast<std::uint32_t>(done.id);
      if (unsent_ && unsent_->payload == sends_[number].bytes) unsent_.reset();
      sends_.drop(number);
    } else {
      on_done(done);
    }
  }
  if (has_failed()) refuse(to_text(requester_.failure()));
}

}  // namespace tally::transport::roce
