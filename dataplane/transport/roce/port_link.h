// A Link over a queue of an Ethernet port.
#pragma once

#include <memory>

#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/port/next_hops.h"
#include "dataplane/transport/roce/port/port.h"

namespace tally::transport::roce {

class PortLink : public Link {
 public:
  // Uses one queue of the port. The links of a port share the next hops. That of the first queue
  // moves the responder's frames, and counts what the device has missed.
  PortLink(std::shared_ptr<Port> port, std::shared_ptr<NextHops> next_hops, std::uint32_t queue);
  ~PortLink() override;

  std::size_t receive(std::span<Arrival> out, Nanos now) override;
  bool send(Packet& packet, View payload, Payload kind) override {
    return queue_.send(packet, payload, kind);
  }
  void flush() override { queue_.flush(); }
  PortCounters counters() const override;
  std::optional<Route> route_to(const IpAddress& target, Nanos now) override;
  PairNumbers pair_numbers() const override { return numbers_of(index_, port_->facts().queues); }

 private:
  std::shared_ptr<Port> port_;
  std::shared_ptr<NextHops> next_hops_;
  std::uint32_t index_;
  PortQueue& queue_;
};

}  // namespace tally::transport::roce
