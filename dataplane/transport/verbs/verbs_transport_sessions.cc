// The transport's beginning and end, and how peers attach and detach.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/system/epoll.h"
#include "dataplane/transport/verbs/verbs_transport.h"

namespace tally::transport::verbs {
namespace {

// How many work requests of a session the adapter has at a time: the READs that it takes, as many
// WRITEs, and completions in between. This is one less than a power of two, because devices round
// queues up to a power of two above it.
constexpr std::uint32_t kSends = 31;
// Nothing is copied, because contributions behind notices are used where they were received.
constexpr std::size_t kNothingCopied = onesided::LandingMemory::kAlignment;

// The receives are the notices within credit, rounded up to whole turns of the pieces behind them.
QueueSizes sizes(std::uint32_t credit) {
  return {kSends, (credit + kEagerPieces - 1) / kEagerPieces * kEagerPieces, 2};
}

}  // namespace

Result<std::unique_ptr<VerbsTransport>> VerbsTransport::open(Api& api,
                                                             const TransportOptions& options) {
  auto connector = Connector::open(api, options.device, sizes(options.credit));
  if (!connector) return connector.error();
  std::unique_ptr<VerbsTransport> transport(
      new VerbsTransport(std::move(connector).value(), options));
  if (!tally::watch(transport->epoll(), transport->connector_->channel().fd, EPOLLIN) ||
      !tally::watch(transport->epoll(), transport->device_.event_fd(), EPOLLIN)) {
    return Error{Status::kNoMemory, "no descriptor left to watch an RDMA device"};
  }
  if (auto registered = transport->register_memory(options); !registered) return registered.error();
  return transport;
}

VerbsTransport::VerbsTransport(std::shared_ptr<Connector> connector,
                               const TransportOptions& options)
    : onesided::OneSidedTransport(
          {options.landing_bytes, kNothingCopied, options.tiles, options.hugepages}),
      connector_(std::move(connector)),
      device_(connector_->device()) {
  batch_.reserve(kSends);
  pieces_.reserve(kSends);
}

// Queue pairs must end before the memory and the queues that they refer to.
VerbsTransport::~VerbsTransport() {
  for (Peer peer = 0; peer < sessions().all().size(); ++peer) detach(peer);
}

Outcome VerbsTransport::register_memory(const TransportOptions& options) {
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

Error VerbsTransport::failed() const {
  return {Status::kUnsupported,
          fmt::format("the node's RDMA device {} failed: start the node again", choice().device)};
}

Result<Connection> VerbsTransport::connect(Peer peer, const Address& client,
                                           std::uint32_t credit) const {
  if (dead_) return failed();
  return connector_->connect(work_id(Work::kReceive, peer, 0), sizes(credit), client);
}

Result<Address> VerbsTransport::attach(Peer peer, Connection connection) {
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
  sessions().add(peer, std::move(session));
  return address;
}

std::optional<Connection> VerbsTransport::part(Peer peer) {
  if (sessions().attached(peer) == nullptr) return std::nullopt;
  Connected& session = connected(*sessions().attached(peer));
  session.broken = session.reported = true;
  Connection parted = std::move(static_cast<Connection&>(session));
  session.place = parted.place;  // kept until the completions in the queue have been taken
  return parted;
}

// The completions of a queue pair that has ended stay in the completion queue. The transport takes
// them before another queue pair can have the same number.
void VerbsTransport::detach(Peer peer) {
  if (!part(peer)) return;
  poll();
  remove(peer);
}

}  // namespace tally::transport::verbs
