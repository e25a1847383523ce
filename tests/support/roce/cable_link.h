// A shard's link over the cable of this process, for tests of the transport roce without DPDK.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "dataplane/transport/roce/link.h"
#include "tests/support/roce/cable.h"

namespace tally::testing {

class CableLink final : public transport::roce::Link {
 public:
  // Plugs in a station of its own. Borrows the cable.
  explicit CableLink(Cable& cable);

  const transport::roce::IpAddress& address() const { return station_->address(); }

  std::size_t receive(std::span<transport::roce::Arrival> out, Nanos now) override;
  // Frames leave with the next flush(), as those of a port do.
  bool send(transport::roce::Packet& packet, View payload, transport::roce::Payload kind) override;
  void flush() override;
  transport::roce::PortCounters counters() const override { return counters_; }
  // The first question about an address has no answer yet, as with ARP.
  std::optional<transport::roce::Route> route_to(const transport::roce::IpAddress& target,
                                                 Nanos now) override;

 private:
  Cable& cable_;
  std::shared_ptr<Station> station_;
  std::vector<FrameBytes> pending_;
  std::set<transport::roce::IpAddress> asked_;
  transport::roce::PortCounters counters_;
};

}  // namespace tally::testing
