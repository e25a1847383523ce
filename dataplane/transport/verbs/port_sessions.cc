// The port's beginning and end, and who comes and goes.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/epoll.h"
#include "dataplane/transport/verbs/port.h"

namespace tally::transport::verbs {
namespace {

// Work of a session that the adapter has at a time: the READs that it takes, as many WRITEs, and
// completions in between. One less than a power of two: queues are rounded up to more than that.
constexpr std::uint32_t kSends = 31;
// What is sent behind notices is used where it has been received.
constexpr std::size_t kNothingCopied = onesided::LandingMemory::kAlignment;

// Notices within credit: as many turns of the pieces behind them as that takes.
QueueSizes sizes(std::uint32_t credit) {
  return {kSends, (credit + kEagerSlots - 1) / kEagerSlots * kEagerSlots, 2};
}

}  // namespace

Result<std::unique_ptr<Port>> Port::open(Api& api, const PortOptions& options) {
  auto connector = Connector::open(api, options.device, sizes(options.credit));
  if (!connector) return connector.error();
  std::unique_ptr<Port> port(new Port(std::move(connector).value(), options));
  if (!tally::watch(port->epoll(), port->connector_->channel().fd, EPOLLIN) ||
      !tally::watch(port->epoll(), port->device_.event_fd(), EPOLLIN)) {
    return Error{Status::kNoMemory, "no descriptor left to watch an RDMA device"};
  }
  if (auto registered = port->register_memory(options); !registered) return registered.error();
  return port;
}

Port::Port(std::shared_ptr<Connector> connector, const PortOptions& options)
    : onesided::Port({options.landing_bytes, kNothingCopied, options.tiles, options.hugepages}),
      connector_(std::move(connector)),
      device_(connector_->device()) {
  batch_.reserve(kSends);
  pieces_.reserve(kSends);
}

// Queue pairs go before what they refer to.
Port::~Port() {
  for (Peer peer = 0; peer < all_sessions().size(); ++peer) detach(peer);
}

Outcome Port::register_memory(const PortOptions& options) {
  const std::span<std::byte> landed = landing().memory();
  auto key = device_.expose(landed.data(), landed.size(), kForItself);
  if (!key) return key.error();
  landing_key_ = std::move(key).value();
  if (options.tiles.empty()) return Unit{};
  key = device_.expose(options.tiles.data(), options.tiles.size(), kForItself);
  if (!key) return key.error();
  tiles_key_ = std::move(key).value();
  return Unit{};
}

Error Port::failed() const {
  return {Status::kUnsupported,
          fmt::format("the node's RDMA device {} failed: start the node again", choice().device)};
}

Result<Connection> Port::connect(Peer peer, const Address& client, std::uint32_t credit) const {
  if (dead_) return failed();
  return connector_->connect(work_id(Work::kReceive, peer, 0), sizes(credit), client);
}

Result<Address> Port::attach(Peer peer, Connection connection) {
  if (dead_) return failed();
  auto session = std::make_unique<Connected>();
  static_cast<Connection&>(*session) = std::move(connection);
  session->peer = peer;
  for (std::uint32_t i = session->receives(); i < session->messages.size() - kEagerArea; ++i) {
    session->free_sends.push_back(i);
  }
  SharedQueue* queue = session->place.get();
  if (std::find(queues_.begin(), queues_.end(), queue) == queues_.end()) queues_.push_back(queue);
  const Address address = session->pair.address();
  add(peer, std::move(session));
  return address;
}

std::optional<Connection> Port::part(Peer peer) {
  if (attached(peer) == nullptr) return std::nullopt;
  Connected& session = connected(*attached(peer));
  session.broken = session.reported = true;
  Connection parted = std::move(static_cast<Connection&>(session));
  session.place = parted.place;  // is another's when what stands in the queue has been taken
  return parted;
}

// What a queue pair has done up to its end stands in the completion queue: it is taken before
// another can have its number.
void Port::detach(Peer peer) {
  if (!part(peer)) return;
  poll();
  remove(peer);
}

}  // namespace tally::transport::verbs
