#include "dataplane/transport/roce/port_link.h"

#include <utility>

namespace tally::transport::roce {

PortLink::PortLink(std::shared_ptr<Port> port, std::shared_ptr<SharedResolver> resolver,
                   std::uint32_t queue)
    : port_(std::move(port)),
      resolver_(std::move(resolver)),
      index_(queue),
      queue_(port_->queue(queue)) {
  if (index_ == 0) queue_.set_resolver(resolver_.get());
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
  const Resolution found = resolver_->resolve(target, now);
  if (found.reach != Reach::kKnown) return std::nullopt;
  return Route{
      .source_mac = port_->facts().mac, .target_mac = found.mac, .vlan = resolver_->vlan()};
}

}  // namespace tally::transport::roce
