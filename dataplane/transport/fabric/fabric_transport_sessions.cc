// The transport's control: how peers attach and detach.
#include <sys/epoll.h>

#include <algorithm>

#include "base/system/epoll.h"
#include "dataplane/transport/fabric/fabric_transport.h"

namespace tally::transport::fabric {

Result<Domain*> FabricTransport::domain_of(std::uint32_t number) {
  Group& group = groups_[number];
  if (group.domain == nullptr) {
    auto made = Domain::another(*model_);
    if (!made) return made.error();
    group.domain = std::move(made).value();
    if (!tally::watch(epoll(), group.domain->wait_fd(), EPOLLIN)) {
      return Error{Status::kNoMemory, "no descriptor left to watch a job's connections"};
    }
  }
  return group.domain.get();
}

// The domain ends with the last session of its group.
void FabricTransport::leave(std::uint32_t number) {
  const auto found = groups_.find(number);
  if (found == groups_.end() || found->second.sessions > 0) return;
  if (const auto& domain = found->second.domain; domain != nullptr) {
    ::epoll_ctl(epoll(), EPOLL_CTL_DEL, domain->wait_fd(), nullptr);
  }
  groups_.erase(found);
}

Result<Name> FabricTransport::attach(Peer peer, const Client& client) {
  const std::uint32_t group = model_->for_one() ? peer : client.job;
  auto domain = domain_of(group);
  auto session = std::make_unique<Connected>();
  session->group = group;
  session->receive.peer = peer;
  auto name = domain ? connect(*session, **domain, client) : domain.error();
  if (!name) {
    if (domain) let_go(*session, **domain);
    session.reset();
    leave(group);
    return name;
  }
  sessions().add(peer, std::move(session));
  ++groups_[group].sessions;
  return name;
}

Result<Name> FabricTransport::connect(Connected& session, Domain& domain, const Client& client) {
  auto endpoint = domain.endpoint();
  if (!endpoint) return endpoint.error();
  session.endpoint = std::move(endpoint).value();
  auto address = domain.insert(client.name);
  if (!address) return address.error();
  session.address = *address;
  session.secret = client.secret;
  session.tree = client.tree;
  session.eager_bytes = std::min<std::uint64_t>(client.eager_bytes, eager_bytes());
  if (auto posted = post_first_receive(session, domain); !posted) return posted.error();
  return domain.name_of(*session.endpoint);
}

// Closing the endpoint ends the operations that the provider has. The transport takes the
// provider's reports about them before it uses their memory again.
void FabricTransport::let_go(Connected& session, Domain& domain) {
  session.broken = true;
  if (session.endpoint) domain.close(session.endpoint, [&] { progress(domain); });
  progress(domain);
  if (session.address != FI_ADDR_UNSPEC) domain.remove(session.address);
}

Outcome FabricTransport::post_first_receive(Connected& session, Domain& domain) {
  auto registered = domain.for_itself(session.receive.bytes, FI_RECV);
  if (!registered) return registered.error();
  session.registered = std::move(registered).value();
  return post_receive(session);
}

Outcome FabricTransport::post_receive(Connected& session) {
  return model_->post_receive(*session.endpoint, session.receive.bytes,
                              descriptor_of(session.registered), session.receive.room.data());
}

void FabricTransport::detach(Peer peer) {
  if (sessions().attached(peer) == nullptr) return;
  Connected& session = connected(*sessions().attached(peer));
  const std::uint32_t number = session.group;
  Group& group = groups_[number];
  let_go(session, *group.domain);
  remove(peer);
  --group.sessions;
  leave(number);
}

}  // namespace tally::transport::fabric
