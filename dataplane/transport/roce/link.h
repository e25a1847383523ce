// How the queue pairs of a shard receive and send packets: PortLink uses a port, tests use others.
#pragma once

#include <optional>
#include <span>

#include "base/clock.h"
#include "base/view.h"
#include "dataplane/transport/roce/port/pair_numbers.h"
#include "dataplane/transport/roce/port/port_queue.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// One thread. No function waits.
class Link {
 public:
  virtual ~Link() = default;

  // As PortQueue::receive(), send() and flush().
  virtual std::size_t receive(std::span<Arrival> out, Nanos now) = 0;
  virtual bool send(Packet& packet, View payload, Payload kind) = 0;
  virtual void flush() = 0;
  virtual PortCounters counters() const = 0;
  // Sets the MAC addresses and the VLAN of a route to this address. Nothing while the other MAC
  // address is not known; the link asks for it.
  virtual std::optional<Route> route_to(const IpAddress& target, Nanos now) = 0;
  // The numbers for this shard's queue pairs: packets for them arrive here.
  virtual PairNumbers pair_numbers() const { return {}; }
};

}  // namespace tally::transport::roce
