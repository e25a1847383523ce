// The port's control: who comes and goes.
#include <sys/epoll.h>

#include <algorithm>

#include "base/epoll.h"
#include "dataplane/transport/fabric/port.h"

namespace tally::transport::fabric {

Result<Domain*> Port::domain_of(std::uint32_t number) {
  Job& job = jobs_[number];
  if (job.domain == nullptr) {
    auto made = Domain::another(*model_);
    if (!made) return made.error();
    job.domain = std::move(made).value();
    if (!tally::watch(epoll(), job.domain->wait_fd(), EPOLLIN)) {
      return Error{Status::kNoMemory, "no descriptor left to watch a job's connections"};
    }
  }
  return job.domain.get();
}

// The domain goes with the last session.
void Port::leave(std::uint32_t number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second.sessions > 0) return;
  if (const auto& domain = found->second.domain; domain != nullptr) {
    ::epoll_ctl(epoll(), EPOLL_CTL_DEL, domain->wait_fd(), nullptr);
  }
  jobs_.erase(found);
}

Result<Name> Port::attach(Peer peer, const Client& client) {
  auto domain = domain_of(client.job);
  auto session = std::make_unique<Connected>();
  session->job = client.job;
  for (ReceiveBuffer& buffer : session->receives) buffer.peer = peer;
  auto name = domain ? connect(*session, **domain, client) : domain.error();
  if (!name) {
    if (domain) let_go(*session, **domain);
    session.reset();
    leave(client.job);
    return name;
  }
  add(peer, std::move(session));
  ++jobs_[client.job].sessions;
  return name;
}

Result<Name> Port::connect(Connected& session, Domain& domain, const Client& client) {
  auto endpoint = domain.endpoint();
  if (!endpoint) return endpoint.error();
  session.endpoint = std::move(endpoint).value();
  auto address = domain.insert(client.name);
  if (!address) return address.error();
  session.address = *address;
  session.secret = client.secret;
  session.tree = client.tree;
  session.eager_bytes = std::min<std::uint64_t>(client.eager_bytes, kEagerBytes);
  for (ReceiveBuffer& buffer : session.receives) {
    if (auto posted = post_receive(session, buffer); !posted) return posted.error();
  }
  return domain.name_of(*session.endpoint);
}

// Closing the endpoint ends what the provider has; what it then says of it is taken before the
// memory of it is used again.
void Port::let_go(Connected& session, Domain& domain) {
  session.broken = true;
  session.endpoint.reset();
  progress(domain);
  if (session.address != FI_ADDR_UNSPEC) domain.remove(session.address);
}

Outcome Port::post_receive(Connected& session, ReceiveBuffer& buffer) {
  return model_->post_receive(*session.endpoint, buffer.bytes, buffer.room.data());
}

void Port::detach(Peer peer) {
  if (attached(peer) == nullptr) return;
  Connected& session = connected(*attached(peer));
  const std::uint32_t number = session.job;
  Job& job = jobs_[number];
  let_go(session, *job.domain);
  remove(peer);
  --job.sessions;
  leave(number);
}

}  // namespace tally::transport::fabric
