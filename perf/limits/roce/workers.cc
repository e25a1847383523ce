#include "perf/limits/roce/workers.h"

#include <array>
#include <cstring>

#include "dataplane/transport/roce/pair/outgoing_packet.h"
#include "perf/limits/roce/node_loop.h"

namespace tally::perf {
namespace {

constexpr std::uint32_t kFirstNumber = 0x100;  // of the workers' queue pairs
constexpr std::uint32_t kSourceKey = 0x1234;
constexpr std::uint32_t kTargetKey = 0x5678;
constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::uint8_t kReads = 16;
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr int kMostBursts = 8;  // that are taken before answers
constexpr int kPumpBurst = 32;  // packets of a worker, before others have their turn

}  // namespace

transport::verbs::Address Workers::address(std::uint32_t worker) const {
  transport::verbs::Address address;
  address.number = kFirstNumber + worker;
  address.mtu = IBV_MTU_256;
  while (transport::verbs::bytes_of(static_cast<ibv_mtu>(address.mtu)) < setup_.mtu) ++address.mtu;
  address.reads_in = kReads;
  address.ethernet = 1;
  std::memcpy(address.gid.raw, setup_.address.data(), setup_.address.size());
  return address;
}

void Workers::connect(const transport::verbs::Address& node) {
  roce::PairOptions options;
  options.first_expected = roce::Psn(node.first_packet);
  options.mtu = setup_.mtu;
  options.reads_in = kReads;
  const std::size_t index = workers_.size();
  Worker& worker = workers_.emplace_back(options, *this);
  worker.peer_number = node.number;
  worker.source_port = static_cast<std::uint16_t>(kFirstSourcePort + index);
  worker.responder.post_receives(2 * Announcements::kTags);
}

transport::onesided::Region Workers::source_region() const {
  return {kBase, setup_.source.size(), kSourceKey};
}

transport::onesided::Region Workers::target_region() const {
  return {kBase, setup_.target.size(), kTargetKey};
}

std::byte* Workers::find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                         roce::Right right) const {
  const auto memory = right == roce::Right::kRead ? setup_.source : setup_.target;
  const std::uint64_t at = address - kBase;
  const bool is_key = key == (right == roce::Right::kRead ? kSourceKey : kTargetKey);
  return is_key && at <= memory.size() && bytes <= memory.size() - at ? memory.data() + at
                                                                      : nullptr;
}

void Workers::announce(wire::Kind kind) {
  announcements_.begin(kind);
  for (std::uint32_t tag_index = 0; tag_index < Announcements::kTags; ++tag_index) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) announce_next(rank, tag_index);
  }
}

void Workers::announce_next(std::uint32_t index, std::uint32_t tag_index) {
  const auto notice = announcements_.next(index, tag_index);
  if (!notice) return;
  ++announced_;
  Worker& worker = workers_[index];
  worker.notices[tag_index] = *notice;
  worker.requester.post({.kind = roce::WorkKind::kSend,
                         .source = worker.notices[tag_index].bytes,
                         .bytes = sizeof worker.notices[tag_index].bytes});
}

Moved Workers::poll() {
  const std::uint64_t packets = link_.packets();
  const std::uint64_t bytes = link_.bytes();
  const Nanos now = monotonic_now();
  for (int i = 0; i < kMostBursts; ++i) {
    const std::size_t count = link_.receive(burst_, now);
    for (const roce::Arrival& arrival : std::span(burst_).first(count)) take(arrival, now);
    if (count < kBurst) break;
  }
  for (Worker& worker : workers_) {
    worker.requester.tick(now);
    worker.responder.tick(now);
    if (find_route(now)) pump(worker, now);
    for (roce::Done done; worker.requester.next_done(done);) failed_ += done.fine ? 0 : 1;
  }
  link_.flush();
  const std::uint64_t moved = link_.packets() - packets;
  return {moved, link_.bytes() - bytes, moved > 0};
}

bool Workers::find_route(Nanos now) {
  if (route_) return true;
  route_ = link_.route_to(setup_.node, now);
  if (!route_) return false;
  route_->source = setup_.address;
  route_->target = setup_.node;
  route_->traffic_class = roce::kEcnCapable;
  return true;
}

void Workers::take(const roce::Arrival& arrival, Nanos now) {
  const std::uint32_t index = arrival.packet.pair - kFirstNumber;
  if (index >= workers_.size()) return;
  Worker& worker = workers_[index];
  if (roce::facts_of(arrival.packet.opcode).kind == roce::Kind::kAcknowledge) {
    worker.requester.receive(arrival.packet, now);
    return;
  }
  const std::uint64_t handle = arrival.packet.psn.number();
  worker.responder.receive(arrival.packet, handle, now);
  // Only this packet's payload can be read. The responder may execute a packet later, because an
  // earlier one is missing. The bytes of such a packet are lost.
  for (roce::Delivery part; worker.responder.next_delivery(part);) {
    if (part.handle == handle) take_part(index, part, arrival);
  }
}

void Workers::take_part(std::uint32_t index, const roce::Delivery& part,
                        const roce::Arrival& arrival) {
  RingEntry message;
  if (part.is_message) workers_[index].responder.post_receives(1);
  if (part.is_message ? part.bytes != sizeof message.bytes : !copies_) return;
  std::byte* to = part.is_message ? message.bytes : part.target;
  for (const Span& piece : arrival.payload()) {
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
  if (!part.is_message) return;
  --announced_;
  const auto tag_index = Announcements::ended(message);
  if (!tag_index) {
    ++failed_;
    return;
  }
  announce_next(index, *tag_index);
}

void Workers::pump(Worker& worker, Nanos now) {
  for (int i = 0; i < kPumpBurst; ++i) {
    roce::Outgoing outgoing;
    if (worker.unsent) {
      outgoing = *worker.unsent;
    } else if (!worker.responder.next(outgoing) && !worker.requester.next(outgoing, now)) {
      return;
    }
    worker.unsent.reset();
    if (emit(worker, outgoing)) continue;
    worker.unsent = outgoing;
    return;
  }
}

bool Workers::emit(const Worker& worker, const roce::Outgoing& outgoing) {
  roce::Packet packet = roce::packet_of(outgoing, *route_, worker.peer_number);
  packet.route.source_port = worker.source_port;
  const Span payload{outgoing.payload, outgoing.bytes};
  const View view = outgoing.bytes > 0 ? View(&payload, 1) : View();
  // Only notices are not in memory of the EAL. The port copies them, because they are short.
  return link_.send(packet, view, roce::Payload::kLent);
}

Moved Workers::flood() {
  Moved moved;
  const Nanos now = monotonic_now();
  link_.receive(burst_, now);  // a peer of memif sends into buffers that this provides
  if (!find_route(now)) return moved;
  roce::Packet packet;
  packet.route = *route_;
  packet.opcode = roce::Opcode::kReadMiddle;
  for (std::size_t i = 0; i < kBurst; ++i) {
    const std::size_t at = std::size_t{flooded_} * setup_.mtu % kOperationBytes;
    packet.psn = roce::Psn(flooded_);
    const Span payload{setup_.source.data() + at, setup_.mtu};
    if (!link_.send(packet, View(&payload, 1), roce::Payload::kLent)) break;
    flooded_ = (flooded_ + 1) % roce::Psn::kCount;
    ++moved.packets;
  }
  link_.flush();
  moved.bytes = moved.packets * setup_.mtu;
  moved.found = moved.packets > 0;
  return moved;
}

}  // namespace tally::perf
