// A link that counts packets and bytes of payload, because a poll of the transport does not say
// what it moved.
#pragma once

#include "dataplane/transport/roce/port_link.h"

namespace tally::perf {

class CountedLink : public transport::roce::PortLink {
 public:
  using PortLink::PortLink;

  std::size_t receive(std::span<transport::roce::Arrival> out, Nanos now) override {
    const std::size_t count = PortLink::receive(out, now);
    for (std::size_t i = 0; i < count; ++i) received_bytes_ += out[i].packet.payload;
    packets_ += count;
    return count;
  }
  bool send(transport::roce::Packet& packet, View payload, transport::roce::Payload kind) override {
    if (!PortLink::send(packet, payload, kind)) return false;
    sent_bytes_ += packet.payload;
    ++packets_;
    return true;
  }

  std::uint64_t packets() const { return packets_; }  // in both directions
  std::uint64_t received_bytes() const { return received_bytes_; }
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  std::uint64_t bytes() const { return received_bytes_ + sent_bytes_; }

 private:
  std::uint64_t packets_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace tally::perf
