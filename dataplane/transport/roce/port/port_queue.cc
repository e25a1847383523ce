#include "dataplane/transport/roce/port/port_queue.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "dataplane/transport/roce/port/pair_numbers.h"

namespace tally::transport::roce {
namespace {

constexpr std::size_t kCacheLine = 64;
// Ethernet's shortest frame, without its checksum. Not every driver pads.
constexpr std::size_t kShortestFrame = 60;
// Requests of the address resolver that one burst sends.
constexpr int kRequestsPerBurst = 4;
// The references of a loan are counted in 16 bits.
constexpr std::uint32_t kMostHeld = 60'000;

std::byte* data_of(rte_mbuf* buffer) {
  return static_cast<std::byte*>(buffer->buf_addr) + buffer->data_off;
}

void prefetch_frame(rte_mbuf* chain) {
  const std::byte* const data = data_of(chain);
  rte_prefetch0(data);
  rte_prefetch0(data + kCacheLine);
}

std::uint32_t little_endian(std::span<const std::byte, kIcrcBytes> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = kIcrcBytes; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  }
  return value;
}

// Writes the padding and the ICRC, and returns their bytes.
std::size_t write_end(const Packet& packet, Icrc& icrc, std::byte* out) {
  const std::size_t padding = packet.padding();
  std::memset(out, 0, padding);
  icrc.add({out, padding});
  std::uint32_t value = icrc.value();
  for (std::size_t i = 0; i < kIcrcBytes; ++i, value >>= 8) {
    out[padding + i] = static_cast<std::byte>(value);
  }
  return padding + kIcrcBytes;
}

// For a frame in one buffer.
void set_length(rte_mbuf* buffer, std::size_t bytes) {
  if (bytes < kShortestFrame) {
    std::memset(data_of(buffer) + bytes, 0, kShortestFrame - bytes);
    bytes = kShortestFrame;
  }
  buffer->data_len = static_cast<std::uint16_t>(bytes);
  buffer->pkt_len = static_cast<std::uint32_t>(bytes);
}

void append(rte_mbuf* head, rte_mbuf*& last, rte_mbuf* next) {
  last->next = next;
  last = next;
  ++head->nb_segs;
  head->pkt_len += next->data_len;
}

}  // namespace

PortQueue::PortQueue(Setup setup) : setup_(std::move(setup)) {}

PortQueue::~PortQueue() {
  for (std::size_t i = 0; i < pending_count_; ++i) rte_pktmbuf_free(pending_[i]);
}

std::size_t PortQueue::receive(std::span<Arrival> out, Nanos now) {
  std::array<rte_mbuf*, kBurst> burst;
  const auto free = std::span(burst).first(std::min(kBurst, out.size()));
  std::size_t count = setup_.handover == nullptr ? 0 : setup_.handover->take(setup_.queue, free);
  // Also without room: some devices give buffers to their peers only here.
  count += rte_eth_rx_burst(setup_.port, setup_.queue, burst.data() + count,
                            static_cast<std::uint16_t>(free.size() - count));
  if (count > 0) prefetch_frame(burst[0]);
  std::size_t arrivals = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 < count) prefetch_frame(burst[i + 1]);
    Arrival& arrival = out[arrivals];
    arrival.frame = Frame(burst[i]);
    if (accept(burst[i], arrival, now)) {
      ++arrivals;
    } else {
      arrival.frame = Frame();
      arrival.span_count = 0;
    }
  }
  if (resolver_ != nullptr && resolver_->is_due(now)) poll_resolver(now);
  return arrivals;
}

bool PortQueue::accept(rte_mbuf* chain, Arrival& out, Nanos now) {
  std::array<std::byte, kBytesToRead> copy;
  const std::uint32_t frame_bytes = chain->pkt_len;
  const std::size_t bytes = std::min<std::size_t>(frame_bytes, kBytesToRead);
  const void* const begin =
      rte_pktmbuf_read(chain, 0, static_cast<std::uint32_t>(bytes), copy.data());
  if (begin == nullptr) {
    ++counters_.unreadable[static_cast<std::size_t>(Unreadable::kLength)];
    return false;
  }
  const std::span head(static_cast<const std::byte*>(begin), bytes);
  out.packet = Packet{};
  if (const Unreadable reason = read_packet(head, frame_bytes, out.packet);
      reason != Unreadable::kNo) {
    const bool is_for_resolver = reason == Unreadable::kNotRoce;
    if (is_for_resolver && passes_on(0, out.frame)) return false;
    ++counters_.unreadable[static_cast<std::size_t>(reason)];
    if (is_for_resolver && resolver_ != nullptr) resolve(chain, now);
    return false;
  }
  if (!is_for_us(out.packet.route)) {
    ++counters_.other_address;
    return false;
  }
  if (passes_on(queue_of(out.packet.pair, setup_.queues), out.frame)) return false;
  if (!read_payload(chain, head.first(out.packet.headers), out)) {
    ++counters_.wrong_icrc;
    return false;
  }
  if (out.span_count > kMostSpans && !join(out)) {
    ++counters_.no_buffer;
    return false;
  }
  ++counters_.received_packets;
  counters_.received_bytes += frame_bytes;
  return true;
}

// Gives the frame to its queue, if that is another one. A number that belongs to no queue stays.
bool PortQueue::passes_on(std::uint32_t queue, Frame& frame) {
  if (queue == setup_.queue || queue >= setup_.queues) return false;
  ++counters_.wrong_queue;
  if (!setup_.handover->give(queue, std::move(frame))) ++counters_.not_passed_on;
  return true;
}

bool PortQueue::is_for_us(const Route& route) const {
  const auto addresses = std::span(setup_.addresses).first(setup_.address_count);
  return is_same(route.target_mac, setup_.mac) && route.vlan == setup_.vlan &&
         std::any_of(addresses.begin(), addresses.end(),
                     [&](const IpAddress& own) { return is_same(route.target, own); });
}

// Collects the pieces of the payload and checks the ICRC.
bool PortQueue::read_payload(rte_mbuf* chain, std::span<const std::byte> headers, Arrival& out) {
  const Packet& packet = out.packet;
  const bool is_in_one_piece = chain->data_len >= packet.icrc_at() + kIcrcBytes;
  if (!is_in_one_piece) return read_pieces(chain, headers, out);
  const std::byte* const payload = data_of(chain) + packet.headers;
  const std::size_t covered = packet.payload + packet.padding();
  Icrc icrc(*setup_.crc, packet, headers);
  icrc.add({payload, covered});
  out.spans[0] = {payload, packet.payload};
  out.span_count = packet.payload > 0 ? 1 : 0;
  return little_endian(std::span<const std::byte, kIcrcBytes>(payload + covered, kIcrcBytes)) ==
         icrc.value();
}

// The same for a frame in several buffers. Counts pieces beyond kMostSpans without keeping them.
bool PortQueue::read_pieces(rte_mbuf* chain, std::span<const std::byte> headers, Arrival& out) {
  const Packet& packet = out.packet;
  const std::size_t payload_end = packet.headers + packet.payload;
  const std::size_t icrc_at = packet.icrc_at();
  const std::size_t end = icrc_at + kIcrcBytes;
  Icrc icrc(*setup_.crc, packet, headers);
  std::array<std::byte, kIcrcBytes> stored;
  out.span_count = 0;
  std::size_t at = 0;  // the first byte of this buffer, counted from the begin of the frame
  for (rte_mbuf* buffer = chain; buffer != nullptr && at < end; buffer = buffer->next) {
    if (buffer->next != nullptr) rte_prefetch0(buffer->next);
    const std::span bytes(data_of(buffer), buffer->data_len);
    const auto cut = [&](std::size_t first, std::size_t last) {
      const std::size_t low = std::max(first, at);
      const std::size_t high = std::min(last, at + bytes.size());
      return low < high ? bytes.subspan(low - at, high - low) : bytes.first(0);
    };
    if (const auto piece = cut(packet.headers, payload_end); !piece.empty()) {
      if (out.span_count < kMostSpans) out.spans[out.span_count] = {piece.data(), piece.size()};
      ++out.span_count;
    }
    if (const auto piece = cut(packet.headers, icrc_at); !piece.empty()) icrc.add(piece);
    if (const auto piece = cut(icrc_at, end); !piece.empty()) {
      std::memcpy(stored.data() + std::max(icrc_at, at) - icrc_at, piece.data(), piece.size());
    }
    at += bytes.size();
  }
  return at >= end && little_endian(stored) == icrc.value();
}

// Copies a payload of many pieces to one buffer, which replaces the frame.
bool PortQueue::join(Arrival& out) {
  Frame joined(rte_pktmbuf_alloc(setup_.copies.pool()));
  if (!joined || rte_pktmbuf_tailroom(joined.get()) < out.packet.payload) return false;
  std::byte* const data = data_of(joined.get());
  // The pieces are several, so this copies.
  if (rte_pktmbuf_read(out.frame.get(), out.packet.headers, out.packet.payload, data) != data) {
    return false;
  }
  out.frame = std::move(joined);
  out.spans[0] = {data, out.packet.payload};
  out.span_count = 1;
  ++counters_.joined;
  return true;
}

void PortQueue::resolve(rte_mbuf* chain, Nanos now) {
  std::array<std::byte, AddressResolver::kMostFrame> copy;
  std::array<std::byte, AddressResolver::kMostFrame> answer;
  if (chain->pkt_len > copy.size()) return;
  const void* const frame = rte_pktmbuf_read(chain, 0, chain->pkt_len, copy.data());
  if (frame == nullptr) return;
  const std::size_t bytes =
      resolver_->receive({static_cast<const std::byte*>(frame), chain->pkt_len}, now, answer);
  if (bytes > 0 && send_frame(std::span(answer).first(bytes))) ++counters_.answers;
}

void PortQueue::poll_resolver(Nanos now) {
  std::array<std::byte, AddressResolver::kMostFrame> request;
  for (int i = 0; i < kRequestsPerBurst; ++i) {
    const std::size_t bytes = resolver_->poll(now, request);
    if (bytes == 0) return;
    static_cast<void>(send_frame(std::span(request).first(bytes)));
  }
}

bool PortQueue::refuse() {
  ++counters_.no_room;
  return false;
}

bool PortQueue::has_room() {
  return pending_count_ < kPending || flush() < kPending;
}

void PortQueue::queue(rte_mbuf* chain) {
  pending_[pending_count_++] = chain;
}

bool PortQueue::send(Packet& packet, View payload, Payload kind) {
  std::size_t bytes = 0;
  std::size_t pieces = 0;
  for (const Span& span : payload) {
    bytes += span.bytes;
    pieces += span.bytes > 0 ? 1 : 0;
  }
  if (bytes > setup_.frame_bytes || !has_room()) return refuse();
  packet.payload = static_cast<std::uint32_t>(bytes);
  if (bytes <= kCopiedPayload) return send_copy(packet, payload, setup_.headers);
  // The begin and the end of the frame are buffers too.
  const bool is_short_enough = pieces + 2 <= setup_.most_segments;
  if (kind == Payload::kLent && is_short_enough) return send_borrowed(packet, payload);
  return send_copy(packet, payload, setup_.copies);
}

bool PortQueue::send_copy(Packet& packet, View payload, FrameMemory& memory) {
  Frame frame(rte_pktmbuf_alloc(memory.pool()));
  if (!frame ||
      rte_pktmbuf_tailroom(frame.get()) < kMostHeaders + packet.payload + 3 + kIcrcBytes) {
    return refuse();
  }
  std::byte* const data = data_of(frame.get());
  write_headers(packet, {data, kMostHeaders});
  Icrc icrc(*setup_.crc, packet, {data, packet.headers});
  std::size_t at = packet.headers;
  for (const Span& span : payload) {
    if (span.bytes == 0) continue;
    std::memcpy(data + at, span.data, span.bytes);
    icrc.add({data + at, span.bytes});
    at += span.bytes;
  }
  at += write_end(packet, icrc, data + at);
  set_length(frame.get(), at);
  if (packet.payload > 0) {
    ++counters_.copied_packets;
    counters_.copied_bytes += packet.payload;
  }
  queue(frame.release());
  return true;
}

bool PortQueue::send_borrowed(Packet& packet, View payload) {
  Frame frame(rte_pktmbuf_alloc(setup_.headers.pool()));
  if (!frame) return refuse();
  rte_mbuf* const head = frame.get();
  std::byte* const data = data_of(head);
  write_headers(packet, {data, kMostHeaders});
  head->data_len = packet.headers;
  head->pkt_len = packet.headers;
  rte_mbuf* last = borrow(payload, head);
  rte_mbuf* const tail = last == nullptr ? nullptr : rte_pktmbuf_alloc(setup_.headers.pool());
  if (tail == nullptr) return refuse();
  Icrc icrc(*setup_.crc, packet, {data, packet.headers});
  for (const Span& span : payload) icrc.add({span.data, span.bytes});
  tail->data_len = static_cast<std::uint16_t>(write_end(packet, icrc, data_of(tail)));
  append(head, last, tail);
  ++counters_.borrowed_packets;
  queue(frame.release());
  return true;
}

// Appends buffers that refer to the payload. Returns the last of them, or nullptr when there are
// not enough.
rte_mbuf* PortQueue::borrow(View payload, rte_mbuf* head) {
  auto* const info =
      std::launder(reinterpret_cast<rte_mbuf_ext_shared_info*>(loan_.shared_info_.data()));
  if (rte_mbuf_ext_refcnt_read(info) + payload.size() > kMostHeld) return nullptr;
  rte_mbuf* last = head;
  for (const Span& span : payload) {
    if (span.bytes == 0) continue;
    rte_mbuf* const buffer = rte_pktmbuf_alloc(setup_.payloads.pool());
    if (buffer == nullptr) return nullptr;
    // Drivers only read what they send. The port borrows only where devices use virtual addresses.
    rte_pktmbuf_attach_extbuf(buffer, const_cast<std::byte*>(span.data),
                              std::bit_cast<std::uintptr_t>(span.data),
                              static_cast<std::uint16_t>(span.bytes), info);
    rte_mbuf_ext_refcnt_update(info, 1);
    buffer->data_len = static_cast<std::uint16_t>(span.bytes);
    append(head, last, buffer);
  }
  return last;
}

bool PortQueue::send_frame(std::span<const std::byte> frame) {
  if (frame.size() > setup_.frame_bytes || !has_room()) return refuse();
  FrameMemory& memory = frame.size() <= kHeaderBuffer ? setup_.headers : setup_.copies;
  rte_mbuf* const buffer = rte_pktmbuf_alloc(memory.pool());
  if (buffer == nullptr) return refuse();
  std::copy(frame.begin(), frame.end(), data_of(buffer));
  set_length(buffer, frame.size());
  queue(buffer);
  return true;
}

std::size_t PortQueue::flush() {
  if (pending_count_ == 0) return 0;
  std::array<std::uint32_t, kPending> bytes;  // the device may free what it takes
  for (std::size_t i = 0; i < pending_count_; ++i) bytes[i] = pending_[i]->pkt_len;
  const std::size_t sent = rte_eth_tx_burst(setup_.port, setup_.queue, pending_.data(),
                                            static_cast<std::uint16_t>(pending_count_));
  for (std::size_t i = 0; i < sent; ++i) counters_.sent_bytes += bytes[i];
  counters_.sent_packets += sent;
  std::copy(pending_.begin() + static_cast<std::ptrdiff_t>(sent),
            pending_.begin() + static_cast<std::ptrdiff_t>(pending_count_), pending_.begin());
  pending_count_ -= sent;
  return pending_count_;
}

void PortQueue::reclaim() {
  static_cast<void>(rte_eth_tx_done_cleanup(setup_.port, setup_.queue, 0));
}

}  // namespace tally::transport::roce
