#include "control/node/tree/parent_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/versions/nodes.h"
#include "control/node/tree/roce_connection.h"
#include "dataplane/transport/shm/segment.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr Nanos kTry = 200 * kMillisecond;  // of one attempt, before the token is read again
constexpr Nanos kPause = 20 * kMillisecond;
constexpr Nanos kGoodbye = 1 * kSecond;
constexpr Nanos kFence = 100 * kMillisecond;

}  // namespace

void CancelToken::end() {
  ended_ = true;
  const std::lock_guard lock(mutex_);
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void CancelToken::watch(int socket) {
  const std::lock_guard lock(mutex_);
  socket_.reset(socket < 0 ? -1 : ::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (over() && socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

Result<std::unique_ptr<ParentSession>> ParentSession::connect(const Options& options,
                                                              CancelToken& cancel) {
  while (true) {
    auto made = attempt(options, cancel);
    cancel.watch(-1);
    if (made) return made;
    // The parent node does not listen yet, or its job assignment has not arrived yet or has been
    // withdrawn. If it was withdrawn, this node's assignment is withdrawn too, and the token ends
    // the loop.
    const bool later =
        made.status() == Status::kUnavailable || made.status() == Status::kStaleEpoch;
    if (cancel.over())
      return Error{Status::kCancelled, "the assignment was withdrawn, or this node is ending"};
    if (!later || monotonic_now() + kPause >= cancel.deadline()) return made.error();
    ::usleep(kPause / kMicrosecond);
  }
}

Result<std::unique_ptr<ParentSession>> ParentSession::attempt(const Options& options,
                                                              CancelToken& cancel) {
  const Nanos deadline = cancel.deadline();
  auto channel = rpc::RpcChannel::connect(
      options.address, std::min(deadline, monotonic_now() + kTry), options.credentials);
  if (!channel) return channel.error();
  if (const auto trusted = channel->check_owner(); !trusted) return trusted.error();
  cancel.watch(channel->fd());
  auto opened = channel->call("session.open",
                              {{"version", rpc::kProtocolVersion},
                               {"job", options.job},
                               {"token", channel->is_secured() ? "" : options.token},
                               {"epoch", options.epoch},
                               {"ranks", options.ranks},
                               {"child_node", options.node},
                               {"lane", options.shard_index}},
                              {}, deadline);
  if (!opened) return opened.error();
  client::ConnectionSize size;
  try {
    size.shards = opened->at("lanes").get<std::uint32_t>();
    size.credit = opened->at("credit").get<std::uint32_t>();
  } catch (const json::exception&) {
    return rpc::unreadable("session.open", *channel);
  }
  const transport::shm::SegmentGeometry geometry{size.shards, size.credit};
  const bool known = std::all_of(options.parent_shards.begin(), options.parent_shards.end(),
                                 [&](std::uint32_t shard) { return shard < size.shards; });
  if (!geometry.valid() || !known) return rpc::unreadable("session.open", *channel);
  auto made = reach(options, *channel, *opened, size, deadline);
  if (!made) return made.error();
  const std::string description = fmt::format("{}; {}", made->connection->description(), made->why);
  std::unique_ptr<ParentSession> parent_connection(
      new ParentSession(std::move(channel).value(), std::move(made->connection), description));
  for (const std::uint32_t shard : options.parent_shards) {
    if (auto added = parent_connection->add_buffers(shard, options.buffers, deadline); !added)
      return added.error();
  }
  return parent_connection;
}

Result<client::ChosenConnection> ParentSession::reach(const Options& options,
                                                      rpc::RpcChannel& channel, const json& opened,
                                                      const client::ConnectionSize& size,
                                                      Nanos deadline) {
  const bool is_here = channel.local_host().empty();  // a Unix socket
  if (options.roce == nullptr || is_here || !opened.contains("verbs")) {
    return client::make_connection(channel, opened, {}, size, {}, deadline);
  }
  auto made = RoceConnection::make({options.roce, options.shard, size}, channel, opened, deadline);
  if (made) {
    return client::ChosenConnection{std::move(made).value(), "by the port of network.roce"};
  }
  if (made.status() != Status::kUnsupported) return made.error();
  auto other = client::make_connection(channel, opened, {}, size, {}, deadline);
  if (other) other->why += fmt::format("; not roce: {}", made.error().message);
  return other;
}

Outcome ParentSession::add_buffers(std::uint32_t shard, const protocol::BufferLayout& layout,
                                   Nanos deadline) {
  auto allocated = client::Region::allocate(layout.total_bytes());
  if (!allocated) return allocated.error();
  // From the offer on, the parent node may reach the memory, until the connection ends.
  if (shard >= regions_.size()) regions_.resize(shard + 1);
  regions_[shard] = std::move(allocated).value();
  client::Region& region = *regions_[shard];
  auto offer = connection_->offer(region);
  if (!offer) return offer.error();
  const auto reply =
      channel_.call("region.register", std::move(offer->params), offer->fds, deadline);
  if (!reply) return reply.error();
  region.id = client::read_region(*reply);
  if (region.id == 0) return rpc::unreadable("region.register", channel_);
  return Unit{};
}

ParentSession::ParentSession(rpc::RpcChannel channel,
                             std::unique_ptr<client::Connection> connection,
                             std::string description)
    : channel_(std::move(channel)),
      control_socket_(::fcntl(channel_.fd(), F_DUPFD_CLOEXEC, 0)),
      connection_(std::move(connection)),
      description_(std::move(description)) {}

// The parent node releases the buffers before it answers. Without an answer it may still write. It
// then writes to memory that it shares, or that the end of the connection has closed to it.
ParentSession::~ParentSession() {
  if (!lost_) {
    static_cast<void>(
        channel_.call("session.close", json::object(), {}, monotonic_now() + kGoodbye));
  }
  static_cast<void>(connection_->fence(monotonic_now() + kFence));
  connection_->hang_up();
}

void ParentSession::hang_up() const {
  ::shutdown(control_socket_.get(), SHUT_RDWR);
}

// A parent that does not answer detects the end of the connection later.
void ParentSession::report_empty(const std::vector<std::uint32_t>& trees) {
  static_cast<void>(
      channel_.call("session.empty", {{"trees", trees}}, {}, monotonic_now() + kGoodbye));
}

void ParentSession::send(std::uint32_t shard, const RingEntry& message) {
  lost_ |= !connection_->send_message(shard, message);
}

std::size_t ParentSession::receive(std::uint32_t shard, std::span<RingEntry> out) {
  return connection_->receive(shard, out);
}

std::span<std::byte> ParentSession::buffers(std::uint32_t shard) const {
  return {regions_[shard]->data(), regions_[shard]->bytes()};
}

std::uint32_t ParentSession::region(std::uint32_t shard) const {
  return regions_[shard]->id;
}

// Also takes the bytes off the doorbells.
bool ParentSession::lost() const {
  lost_ |= connection_->read_events() || connection_->broken();
  return lost_;
}

}  // namespace tally::control
