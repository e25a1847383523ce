#include "client/connections/fabric_inbox.h"

#include <algorithm>

namespace tally::client {

Outcome FabricInbox::open(transport::fabric::Domain& domain, fid_ep& endpoint,
                          std::size_t connections) {
  domain_ = &domain;
  endpoint_ = &endpoint;
  receives_ = std::vector<Receive>(connections + kSpare);
  const std::size_t bytes = receives_.size() * kBufferBytes;
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span all(bytes_.get(), bytes);
  auto registered = domain.for_itself(all, FI_RECV);
  if (!registered) return registered.error();
  registered_ = std::move(registered).value();
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    receives_[i].bytes = all.subspan(i * kBufferBytes, kBufferBytes);
    if (auto posted = post(receives_[i]); !posted) return posted;
  }
  return Unit{};
}

Outcome FabricInbox::post(Receive& receive) {
  return domain_->post_receive(*endpoint_, receive.bytes,
                               transport::fabric::descriptor_of(registered_), &receive.room);
}

Outcome FabricInbox::taken(const fi_cq_data_entry& entry) {
  if ((entry.flags & FI_MULTI_RECV) == 0) return Unit{};
  return post(*reinterpret_cast<Receive*>(entry.op_context));
}

bool FabricInbox::has(const void* context) const {
  return std::any_of(receives_.begin(), receives_.end(),
                     [context](const Receive& receive) { return &receive.room == context; });
}

Outcome FabricInbox::failed(const fi_cq_err_entry& error) {
  const auto used = transport::fabric::used_up(error);
  if (!used) return Error{Status::kProtocol, "a message is too long"};
  return *used ? post(*reinterpret_cast<Receive*>(error.op_context)) : Outcome{Unit{}};
}

}  // namespace tally::client
