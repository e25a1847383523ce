#include "client/connections/verbs_devices.h"

#include <utility>

namespace tally::client {

namespace verbs = transport::verbs;

Result<std::uint32_t> VerbsDevice::expose(const Region& region) {
  Exposed& exposed = exposed_[&region];
  if (exposed.users == 0) {
    const bool is_dmabuf = !region.host_accessible() && region.fd() >= 0;
    auto made =
        is_dmabuf
            ? device_->expose_dmabuf(region.fd(), region.base_offset(), region.bytes(),
                                     region.address(), verbs::kForTheNode)
            : device_->expose(reinterpret_cast<void*>(region.address()), region.bytes(),
                              region.writable() ? verbs::kForTheNode : verbs::kForReadsOfTheNode);
    if (!made) {
      exposed_.erase(&region);
      return made.error();
    }
    exposed.registered = std::move(made).value();
  }
  ++exposed.users;
  return exposed.registered->rkey;
}

void VerbsDevice::withdraw(const Region* region) {
  const auto found = exposed_.find(region);
  if (found != exposed_.end() && --found->second.users == 0) exposed_.erase(found);
}

// While work completions arrive, they also show the events that concern one connection. So only
// events after which none may arrive are kept.
void VerbsDevice::read_events() {
  if (device_->event_fd() < 0) return;
  ibv_async_event event{};
  while (device_->api().get_async_event(&device_->context(), &event) == 0) {
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) failure_ = "the RDMA device failed";
    if (event.event_type == IBV_EVENT_CQ_ERR) failure_ = "the RDMA device lost a completion queue";
    if (event.event_type == IBV_EVENT_QP_FATAL) failure_ = "the RDMA device gave a queue pair up";
    device_->api().ack_async_event(&event);
  }
}

Result<std::shared_ptr<VerbsDevice>> VerbsDevices::open(verbs::Api& api,
                                                        const verbs::DeviceOptions& options) {
  std::erase_if(opened_, [](const Opened& one) { return one.device.expired(); });
  for (const Opened& one : opened_) {
    if (one.options == options) return one.device.lock();
  }
  auto device = verbs::Device::open(api, options);
  if (!device) return device.error();
  auto shared = std::make_shared<VerbsDevice>(std::move(device).value());
  opened_.push_back({options, shared});
  return shared;
}

}  // namespace tally::client
