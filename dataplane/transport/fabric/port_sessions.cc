// The port's control: who comes and goes, and which memory they have.
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
    if (!tally::watch(epoll_.get(), job.domain->wait_fd(), EPOLLIN)) {
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
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, domain->wait_fd(), nullptr);
  }
  jobs_.erase(found);
}

Result<Name> Port::attach(Peer peer, const Client& client) {
  auto domain = domain_of(client.job);
  auto session = std::make_unique<Session>();
  session->job = client.job;
  for (ReceiveBuffer& buffer : session->receives) buffer.peer = peer;
  auto name = domain ? connect(*session, **domain, client) : domain.error();
  if (!name) {
    if (domain) let_go(*session, **domain);
    session.reset();
    leave(client.job);
    return name;
  }
  if (peer >= sessions_.size()) sessions_.resize(peer + 1);
  sessions_[peer] = std::move(session);
  ++jobs_[client.job].sessions;
  return name;
}

Result<Name> Port::connect(Session& session, Domain& domain, const Client& client) {
  auto endpoint = domain.endpoint();
  if (!endpoint) return endpoint.error();
  session.endpoint = std::move(endpoint).value();
  auto address = domain.insert(client.name);
  if (!address) return address.error();
  session.address = *address;
  session.secret = client.secret;
  session.regions.resize(1);
  for (ReceiveBuffer& buffer : session.receives) {
    if (auto posted = post_receive(session, buffer); !posted) return posted.error();
  }
  return domain.name_of(*session.endpoint);
}

// Closing the endpoint ends what the provider has; what it then says of it is taken before the
// memory of it is used again.
void Port::let_go(Session& session, Domain& domain) {
  session.broken = true;
  session.endpoint.reset();
  progress(domain);
  if (session.address != FI_ADDR_UNSPEC) domain.remove(session.address);
}

Outcome Port::post_receive(Session& session, ReceiveBuffer& buffer) {
  return model_->post_receive(*session.endpoint, buffer.bytes, buffer.room);
}

void Port::detach(Peer peer) {
  if (attached(peer) == nullptr) return;
  Session& session = *sessions_[peer];
  Job& job = jobs_[session.job];
  let_go(session, *job.domain);
  for (Operation& operation : operations_) {
    const bool open = operation.bytes > 0 && operation.peer == peer && !operation.answered;
    if (open) end(operation, Status::kPeerLost);
  }
  std::erase_if(received_, [peer](const Received& received) { return received.peer == peer; });
  const std::uint32_t number = session.job;
  sessions_[peer].reset();
  --job.sessions;
  leave(number);
}

void Port::add_region(Peer peer, std::uint32_t number, const Region& region) {
  Session* session = attached(peer);
  if (session == nullptr) return;
  auto& regions = session->regions;
  if (number >= regions.size()) regions.resize(number + 1);
  regions[number] = region;
}

void Port::remove_region(Peer peer, std::uint32_t number) {
  Session* session = attached(peer);
  if (session == nullptr) return;
  auto& regions = session->regions;
  if (number < regions.size()) regions[number] = Region{};
}

}  // namespace tally::transport::fabric
