#include "tests/support/roce/cable_link.h"

#include <array>
#include <utility>

namespace tally::testing {

namespace roce = transport::roce;

namespace {

constexpr std::size_t kMostPending = 64;

// A Frame owns bytes on the heap in place of DPDK's buffers.
rte_mbuf* as_chain(FrameBytes bytes) {
  return reinterpret_cast<rte_mbuf*>(new FrameBytes(std::move(bytes)));
}

const FrameBytes& bytes_of(const roce::Frame& frame) {
  return *reinterpret_cast<const FrameBytes*>(frame.get());
}

void delete_bytes(rte_mbuf* chain) {
  delete reinterpret_cast<FrameBytes*>(chain);
}

// Before any thread starts.
[[maybe_unused]] const bool kIsSet = [] {
  roce::Frame::set_give_back(&delete_bytes);
  return true;
}();

}  // namespace

CableLink::CableLink(Cable& cable) : cable_(cable), station_(cable.plug_in()) {}

std::size_t CableLink::receive(std::span<roce::Arrival> out, Nanos now) {
  std::size_t count = 0;
  for (; count < out.size(); ++count) {
    auto arrived = station_->receive(now);
    if (!arrived) break;
    ++counters_.received_packets;
    counters_.received_bytes += arrived->frame.size();
    roce::Arrival& arrival = out[count];
    arrival = roce::Arrival();
    arrival.packet = arrived->packet;
    arrival.frame = roce::Frame(as_chain(std::move(arrived->frame)));
    // In two pieces, as buffers that are smaller than the frame give it.
    const auto payload =
        std::span(bytes_of(arrival.frame)).subspan(arrival.packet.headers, arrival.packet.payload);
    const std::size_t half = payload.size() / 2;
    for (const auto piece : {payload.first(half), payload.subspan(half)}) {
      if (!piece.empty()) arrival.spans[arrival.span_count++] = {piece.data(), piece.size()};
    }
  }
  return count;
}

bool CableLink::send(roce::Packet& packet, View payload, roce::Payload) {
  if (pending_.size() >= kMostPending) flush();
  FrameBytes joined;
  for (const Span& piece : payload)
    joined.insert(joined.end(), piece.data, piece.data + piece.bytes);
  pending_.push_back(write_frame(packet, joined));
  return true;
}

void CableLink::flush() {
  for (const FrameBytes& frame : pending_) {
    ++counters_.sent_packets;
    counters_.sent_bytes += frame.size();
    station_->send(frame);
  }
  pending_.clear();
}

std::optional<roce::Route> CableLink::route_to(const roce::IpAddress& target, Nanos) {
  if (asked_.insert(target).second) return std::nullopt;
  const auto mac = cable_.mac_of(target);
  if (!mac) return std::nullopt;
  return roce::Route{.source_mac = station_->mac(), .target_mac = *mac};
}

}  // namespace tally::testing
