#include "perf/limits/roce/stateless.h"

#include <fmt/format.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/transport/roce/wire/icrc.h"
#include "dataplane/transport/roce/wire/network_order.h"

namespace tally::perf {
namespace {

namespace roce = transport::roce;
namespace order = roce::network_order;

constexpr std::uint32_t kBuffers = 2048;
constexpr std::uint32_t kSmallBuffer = 256;
constexpr std::size_t kPsnAt = 9;  // in the BTH

std::byte* bytes_of(rte_mbuf* buffer) {
  return rte_pktmbuf_mtod(buffer, std::byte*);
}

void set_length(rte_mbuf* buffer, std::size_t bytes) {
  buffer->data_len = static_cast<std::uint16_t>(bytes);
  buffer->pkt_len = static_cast<std::uint32_t>(bytes);
}

void prefetch(rte_mbuf* frame) {
  rte_prefetch0(bytes_of(frame));
  rte_prefetch0(bytes_of(frame) + RTE_CACHE_LINE_SIZE);
}

}  // namespace

Result<std::unique_ptr<Stateless>> Stateless::open(const roce::Port& port, const roce::Route& route,
                                                   std::uint32_t mtu,
                                                   std::span<const std::byte> result) {
  std::unique_ptr<Stateless> made(new Stateless());
  const auto crc = Crc32::open();
  if (!crc) return crc.error();
  made->crc_ = *crc;
  if (rte_eth_dev_get_port_by_name(port.facts().name.c_str(), &made->port_) != 0) {
    return Error{Status::kInternal, fmt::format("port {} has no device", port.facts().name)};
  }
  made->mtu_ = mtu;
  made->result_ = result;
  made->added_.resize(kOperationBytes / mtu);
  made->layout_.route = route;
  made->layout_.opcode = roce::Opcode::kWriteMiddle;
  made->layout_.payload = mtu;
  roce::write_headers(made->layout_, made->headers_);
  auto buffers = roce::FrameMemory::create("stateless_buffers", kBuffers, kSmallBuffer);
  if (!buffers) return buffers.error();
  made->buffers_ = std::move(*buffers);
  auto payloads = roce::FrameMemory::create("stateless_payloads", kBuffers, 0);
  if (!payloads) return payloads.error();
  made->payloads_ = std::move(*payloads);
  made->loan_ = std::make_unique<rte_mbuf_ext_shared_info>();
  made->loan_->free_cb = [](void*, void*) {};
  rte_mbuf_ext_refcnt_set(made->loan_.get(), 1);
  if (auto frames = made->make_frames(); !frames) return frames.error();
  return made;
}

Stateless::~Stateless() {
  for (std::size_t i = 0; i < pending_count_; ++i) rte_pktmbuf_free(pending_[i]);
  for (rte_mbuf* frame : made_) rte_pktmbuf_free(frame);
}

// Whole frames, each in one buffer.
Outcome Stateless::make_frames() {
  auto frames = roce::FrameMemory::create("stateless_frames", kBurst,
                                          mtu_ + roce::kMostHeaders + roce::kIcrcBytes);
  if (!frames) return frames.error();
  frames_ = std::move(*frames);
  for (std::size_t i = 0; i < kBurst; ++i) {
    rte_mbuf* const chain = make_write();
    rte_mbuf* const frame = rte_pktmbuf_alloc(frames_.pool());
    if (chain == nullptr || frame == nullptr) return Error{Status::kNoMemory, "no frames to send"};
    rte_pktmbuf_read(chain, 0, chain->pkt_len, bytes_of(frame));
    set_length(frame, chain->pkt_len);
    rte_pktmbuf_free(chain);
    made_.push_back(frame);
  }
  return Unit{};
}

void Stateless::begin() {
  sum_.clear();
  added_.assign(added_.size(), 0);
  wrong_ = 0;
}

bool Stateless::is_right() const {
  const std::size_t elements = mtu_ / sizeof(float);
  for (std::size_t i = 0; i < added_.size(); ++i) {
    if (!sum_.is(added_[i], i * elements, elements)) return false;
  }
  return wrong_ == 0;
}

Moved Stateless::read() {
  std::array<rte_mbuf*, kBurst> burst;
  const std::uint16_t count = rte_eth_rx_burst(port_, 0, burst.data(), kBurst);
  if (count > 0) prefetch(burst[0]);
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i + 1 < count) prefetch(burst[i + 1]);
    add_answer(burst[i]);
  }
  rte_pktmbuf_free_bulk(burst.data(), count);
  return {count, std::uint64_t{count} * mtu_, count > 0};
}

void Stateless::add_answer(rte_mbuf* frame) {
  const std::size_t icrc_at = layout_.headers + mtu_;
  const std::byte* const bytes = bytes_of(frame);
  const bool is_answer = frame->nb_segs == 1 && frame->pkt_len == icrc_at + roce::kIcrcBytes &&
                         bytes[layout_.base] == static_cast<std::byte>(roce::Opcode::kReadMiddle);
  if (!is_answer) return;
  roce::Icrc icrc(*crc_, layout_, {bytes, layout_.headers});
  icrc.add({bytes + layout_.headers, mtu_});
  std::uint32_t stored = 0;
  std::memcpy(&stored, bytes + icrc_at, sizeof stored);
  if (stored != icrc.value()) ++wrong_;
  const std::uint64_t psn = order::get({bytes, layout_.headers}, layout_.base + kPsnAt, 3);
  const std::size_t place = psn % added_.size();
  const Span payload{bytes + layout_.headers, mtu_};
  sum_.add(View(&payload, 1), mtu_, place * mtu_);
  ++added_[place];
}

Moved Stateless::receive() {
  std::array<rte_mbuf*, kBurst> burst;
  const std::uint16_t count = rte_eth_rx_burst(port_, 0, burst.data(), kBurst);
  rte_pktmbuf_free_bulk(burst.data(), count);
  return {count, std::uint64_t{count} * mtu_, count > 0};
}

// Header, payload and ICRC are three buffers, because the payload is not copied.
rte_mbuf* Stateless::make_write() {
  rte_mbuf* const head = rte_pktmbuf_alloc(buffers_.pool());
  rte_mbuf* const payload = rte_pktmbuf_alloc(payloads_.pool());
  rte_mbuf* const tail = rte_pktmbuf_alloc(buffers_.pool());
  if (head == nullptr || payload == nullptr || tail == nullptr) return nullptr;
  std::byte* const bytes = bytes_of(head);
  std::memcpy(bytes, headers_.data(), layout_.headers);
  order::put({bytes, layout_.headers}, layout_.base + kPsnAt, 3, psn_);
  const std::byte* const source = result_.data() + psn_ % added_.size() * mtu_;
  psn_ = (psn_ + 1) % roce::Psn::kCount;
  rte_pktmbuf_attach_extbuf(payload, const_cast<std::byte*>(source),
                            std::bit_cast<std::uintptr_t>(source), static_cast<std::uint16_t>(mtu_),
                            loan_.get());
  rte_mbuf_ext_refcnt_update(loan_.get(), 1);
  payload->data_len = static_cast<std::uint16_t>(mtu_);
  roce::Icrc icrc(*crc_, layout_, {bytes, layout_.headers});
  icrc.add({source, mtu_});
  const std::uint32_t value = icrc.value();
  std::memcpy(bytes_of(tail), &value, sizeof value);
  tail->data_len = sizeof value;
  head->data_len = layout_.headers;
  head->pkt_len = layout_.headers + mtu_ + sizeof value;
  head->nb_segs = 3;
  head->next = payload;
  payload->next = tail;
  return head;
}

Moved Stateless::write() {
  const std::size_t before = pending_count_;
  while (pending_count_ < kBurst) {
    rte_mbuf* const frame = make_write();
    if (frame == nullptr) break;
    pending_[pending_count_++] = frame;
  }
  const bool has_made = pending_count_ > before;
  Moved moved = flush();
  moved.found = moved.found || has_made;
  return moved;
}

Moved Stateless::send() {
  while (pending_count_ < kBurst) {
    rte_mbuf* const frame = made_[psn_++ % made_.size()];
    rte_mbuf_refcnt_update(frame, 1);
    pending_[pending_count_++] = frame;
  }
  return flush();
}

Moved Stateless::icrc() {
  for (std::size_t i = 0; i < kBurst; ++i) {
    roce::Icrc icrc(*crc_, layout_, {headers_.data(), layout_.headers});
    icrc.add({result_.data() + i % added_.size() * mtu_, mtu_});
    icrc_ = icrc.value();
  }
  return {kBurst, kBurst * std::uint64_t{mtu_}, true};
}

Moved Stateless::flush() {
  const std::uint16_t sent =
      rte_eth_tx_burst(port_, 0, pending_.data(), static_cast<std::uint16_t>(pending_count_));
  std::copy(pending_.begin() + sent, pending_.begin() + static_cast<std::ptrdiff_t>(pending_count_),
            pending_.begin());
  pending_count_ -= sent;
  return {sent, std::uint64_t{sent} * mtu_, sent > 0};
}

}  // namespace tally::perf
