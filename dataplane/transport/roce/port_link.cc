#include "dataplane/transport/roce/port_link.h"

#include <utility>

namespace tally::transport::roce {

PortLink::PortLink(std::shared_ptr<Port> port, std::shared_ptr<NextHops> next_hops,
                   std::uint32_t queue)
    : port_(std::move(port)),
      next_hops_(std::move(next_hops)),
      index_(queue),
      queue_(port_->queue(queue)) {
  if (index_ == 0) queue_.set_resolver(next_hops_->responder());
}

PortLink::~PortLink() {
  queue_.set_resolver(nullptr);
}

std::size_t PortLink::receive(std::span<Arrival> out, Nanos now) {
  return queue_.receive(out, now);
}

PortCounters PortLink::counters() const {
  PortCounters counters = queue_.counters();
  if (index_ == 0) counters.missed = port_->missed();
  return counters;
}

std::optional<Route> PortLink::route_to(const IpAddress& target, Nanos now) {
  const Resolution found = next_hops_->resolve(target, now);
  if (found.reach != Reach::kKnown) return std::nullopt;
  const PortFacts& facts = port_->facts();
  return Route{.source_mac = facts.mac, .target_mac = found.mac, .vlan = facts.vlan};
}

}  // namespace tally::transport::roce
