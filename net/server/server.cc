#include "net/server/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/log/log_limiter.h"
#include "net/rpc/message.h"
#include "net/server/acceptor.h"
#include "net/server/anonymous.h"
#include "net/server/connection.h"
#include "net/server/wrong_keys.h"
#include "net/tcp.h"

namespace tally::rpc {
namespace {

using Cause = AnonymousConnections::Cause;

// Descriptors kept in reserve. When the process can open no more files, the server closes one to
// accept a local operator.
constexpr std::size_t kSpareDescriptors = 8;
constexpr Nanos kLongestSweep = kSecond;

// Sends an error and does not wait. A new socket has room for the line; if not, the peer only sees
// the hang-up.
void send_error(int socket, Status status, std::string_view message) {
  const std::string line = format_error(nullptr, status, message);
  static_cast<void>(::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

// Held by shared_ptr, so that handlers in the event loop find it, or find that it is gone.
class Server::Core : public ConnectionOwner, public std::enable_shared_from_this<Core> {
 public:
  Core(asio::io_context& io, Service& service, const Limits& limits, Security security)
      : io_(io),
        service_(service),
        limits_(limits),
        security_(std::move(security)),
        anonymous_(limits.anonymous),
        sweep_(io) {}

  Result<std::string> listen(const ListenOptions& options);
  ConnectionId adopt(UniqueFd socket);
  ConnectionId latest() const { return last_id_; }
  Connection* find(ConnectionId id) const;
  ConnectionCounts counts() const;
  void stop_listening();
  void stop();

  void on_activity(Connection& connection) override;
  void on_holding(Connection& connection) override;
  Nanos handshake_wait(const Connection& connection) override;
  void on_refused(Connection& connection, std::string_view reason, bool wrong_key) override;
  void on_end(Connection& connection, std::string_view reason) override;

 private:
  void take(UniqueFd socket);
  bool make_room_for(const Peer& peer);
  bool give_up_descriptor(int error);
  void refill_spares();
  void refuse(UniqueFd socket, const Peer& peer, std::string_view reason);
  ConnectionId add(UniqueFd socket, Peer peer);
  void close_anonymous(ConnectionId id, Cause cause);
  void dismiss(ConnectionId id, std::string_view reason);
  void hang_up(ConnectionId id, std::string_view reason);
  void warn(const char* event, std::string_view reason, std::initializer_list<log::Field> fields);
  void begin_sweeping();
  void sweep();
  std::string why(Cause cause) const;
  // All connections except the anonymous ones of operators.
  std::size_t counted() const { return open_ - anonymous_.operators(); }

  asio::io_context& io_;
  Service& service_;
  const Limits limits_;
  const Security security_;
  WrongKeys wrong_keys_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  std::size_t open_ = 0;  // number of connections_ that have not ended
  AnonymousConnections anonymous_;
  // Connections that have sent descriptors with a request that has not ended yet, and since when.
  std::map<ConnectionId, Nanos> holding_fds_;
  std::vector<UniqueFd> spares_;
  ConnectionId last_id_ = 0;
  asio::steady_timer sweep_;
  bool sweeping_ = false;
  log::Limiter limiter_;
  ConnectionCounts closed_;
};

Result<std::string> Server::Core::listen(const ListenOptions& options) {
  const auto weak = weak_from_this();
  auto acceptor = Acceptor::open(io_, options,
                                 {.take =
                                      [weak](UniqueFd socket) {
                                        if (const auto self = weak.lock()) {
                                          self->take(std::move(socket));
                                        }
                                      },
                                  .make_room =
                                      [weak](int error) {
                                        const auto self = weak.lock();
                                        return self && self->give_up_descriptor(error);
                                      }});
  if (!acceptor) return acceptor.error();
  acceptors_.push_back(*acceptor);
  refill_spares();
  return (*acceptor)->address();
}

// -- accepting ------------------------------------------------------------------------------

void Server::Core::take(UniqueFd socket) {
  Peer peer = peer_of(socket.get());
  const bool on_spare = spares_.size() < kSpareDescriptors;
  if (on_spare && !peer.is_operator) {
    refuse(std::move(socket), peer,
           "the node has no free descriptor: raise its limit of open files (RLIMIT_NOFILE)");
    return refill_spares();
  }
  if (!make_room_for(peer)) {
    return refuse(
        std::move(socket), peer,
        fmt::format(
            "the node has {} connections, its limit: close some, or raise limits.connections",
            limits_.connections));
  }
  try {
    add(std::move(socket), std::move(peer));
  } catch (const std::exception& failure) {  // no memory, or no room in the event loop
    warn("accept-failed", "accept-failed", {{"error", failure.what()}});
  }
}

// Returns false when there is no room and no stranger to disconnect.
bool Server::Core::make_room_for(const Peer& peer) {
  if (const auto closing = anonymous_.before_next(peer.source, peer.is_operator)) {
    close_anonymous(closing->id, closing->cause);
  }
  if (peer.is_operator || counted() < limits_.connections) return true;
  const auto oldest = anonymous_.oldest();
  if (oldest) close_anonymous(*oldest, Cause::kConnections);
  return oldest.has_value();
}

// Frees a stranger's descriptor. Without strangers, frees a spare one, which only a local operator
// can use.
bool Server::Core::give_up_descriptor(int error) {
  warn("accept-failed", "accept-failed",
       {{"error", std::strerror(error)},
        {"remedy", "raise the limit of open files (RLIMIT_NOFILE)"}});
  if (const auto oldest = anonymous_.oldest()) {
    ++closed_.closed_for_descriptors;
    dismiss(*oldest,
            "the node has no free descriptor: raise its limit of open files (RLIMIT_NOFILE)");
    return true;
  }
  if (spares_.empty()) return false;
  spares_.pop_back();
  return true;
}

void Server::Core::refill_spares() {
  while (!acceptors_.empty() && spares_.size() < kSpareDescriptors) {
    UniqueFd spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!spare) return;
    spares_.push_back(std::move(spare));
  }
}

void Server::Core::refuse(UniqueFd socket, const Peer& peer, std::string_view reason) {
  ++closed_.refused;
  send_error(socket.get(), Status::kRefused, reason);
  warn("refused", "refused", {{"peer", peer.name}, {"reason", reason}});
}

ConnectionId Server::Core::adopt(UniqueFd socket) {
  Peer peer = peer_of(socket.get());
  return add(std::move(socket), std::move(peer));
}

ConnectionId Server::Core::add(UniqueFd socket, Peer peer) {
  const ConnectionId id = ++last_id_;
  const auto connection = std::make_shared<Connection>(
      io_, std::move(socket), id, std::move(peer), limits_, security_, service_, weak_from_this());
  connections_.emplace(id, connection);
  ++open_;
  anonymous_.add(id, connection->peer().source, connection->peer().is_operator, monotonic_now());
  begin_sweeping();
  connection->start();
  return id;
}

// -- activity ------------------------------------------------------------------------------

void Server::Core::on_activity(Connection& connection) {
  const ConnectionId id = connection.id();
  if (!connection.is_anonymous()) return anonymous_.remove(id);
  if (!anonymous_.contains(id)) {  // anonymous again
    const Peer& peer = connection.peer();
    anonymous_.add(id, peer.source, peer.is_operator, monotonic_now());
    anonymous_.holds(id, connection.held_bytes());
    begin_sweeping();
  }
  anonymous_.active(id, connection.is_busy(), monotonic_now());
}

void Server::Core::on_holding(Connection& connection) {
  anonymous_.holds(connection.id(), connection.held_bytes());
  if (connection.held_fds() == 0) {
    holding_fds_.erase(connection.id());
  } else {
    holding_fds_.try_emplace(connection.id(), monotonic_now());
    begin_sweeping();
  }
}

Nanos Server::Core::handshake_wait(const Connection& connection) {
  return wrong_keys_.wait_of(connection.peer().source, monotonic_now());
}

void Server::Core::on_refused(Connection& connection, std::string_view reason, bool wrong_key) {
  const Peer& peer = connection.peer();
  if (wrong_key) wrong_keys_.add(peer.source, monotonic_now());
  ++closed_.refused_keys;
  warn("access-refused", "access-refused", {{"peer", peer.name}, {"reason", reason}});
}

void Server::Core::on_end(Connection& connection, std::string_view reason) {
  const ConnectionId id = connection.id();
  if (!reason.empty()) {
    const std::string_view limited = connection.is_anonymous() ? reason : std::string_view();
    warn("disconnected", limited,
         {{"connection", id}, {"peer", connection.peer().name}, {"reason", reason}});
  }
  anonymous_.remove(id);
  holding_fds_.erase(id);
  --open_;
  // Posted: this may be deep inside the service's handle().
  asio::post(io_, [weak = weak_from_this(), id] {
    const auto self = weak.lock();
    if (self && self->connections_.erase(id) > 0) self->service_.closed(id);
  });
  if (spares_.size() < kSpareDescriptors) refill_spares();
}

// -- closing --------------------------------------------------------------------------------

std::string Server::Core::why(Cause cause) const {
  const AnonymousLimits& limits = limits_.anonymous;
  switch (cause) {
    case Cause::kIdle:
      return fmt::format("sent no request for {} s and has no session (limits.anonymous_idle_s)",
                         limits.idle / kSecond);
    case Cause::kSource:
      return "its source has too many connections without a session, and this is the oldest "
             "(limits.anonymous_per_source)";
    case Cause::kAll:
      return "there are too many connections without a session, and this is the oldest "
             "(limits.anonymous_connections)";
    case Cause::kOperators:
      return "there are too many connections of operators, and this is the oldest "
             "(limits.operator_connections)";
    case Cause::kConnections:
      return "the node has too many connections, and this is the oldest without a session "
             "(limits.connections)";
    case Cause::kMemory:
      return "connections without a session hold too many bytes, and this one most of them";
  }
  return {};
}

void Server::Core::close_anonymous(ConnectionId id, Cause cause) {
  // Serves what the peer has asked meanwhile, because it may be about to identify itself.
  Connection* connection = find(id);
  if (connection != nullptr && cause != Cause::kIdle) connection->serve();
  if (!anonymous_.contains(id)) return;
  switch (cause) {
    case Cause::kIdle:
      ++closed_.closed_idle;
      return hang_up(id, why(cause));  // no message: the peer would take it for the next answer
    case Cause::kMemory:
      ++closed_.closed_for_memory;
      break;
    case Cause::kSource:
    case Cause::kAll:
    case Cause::kOperators:
    case Cause::kConnections:
      ++closed_.closed_for_newer;
  }
  dismiss(id, why(cause));
}

// Status `again` lets the peer try again.
void Server::Core::dismiss(ConnectionId id, std::string_view reason) {
  if (Connection* connection = find(id)) {
    connection->send(format_error(nullptr, Status::kAgain,
                                  fmt::format("the node closed the connection: {}", reason)));
  }
  hang_up(id, reason);
}

void Server::Core::hang_up(ConnectionId id, std::string_view reason) {
  if (Connection* connection = find(id)) connection->end(reason);
}

// Lines with the same `limited` have a limit in rate. A line with an empty `limited` has none.
void Server::Core::warn(const char* event, std::string_view limited,
                        std::initializer_list<log::Field> fields) {
  if (!limited.empty() && !limiter_.allows(limited, monotonic_now())) return begin_sweeping();
  log::warning(event, fields);
}

void Server::Core::begin_sweeping() {
  if (sweeping_) return;
  sweeping_ = true;
  sweep_.expires_after(
      std::chrono::nanoseconds(std::min(kLongestSweep, limits_.anonymous.idle / 4)));
  sweep_.async_wait([weak = weak_from_this()](const std::error_code& error) {
    const auto self = weak.lock();
    if (self && !error) self->sweep();
  });
}

void Server::Core::sweep() {
  const Nanos now = monotonic_now();
  while (const auto closing = anonymous_.next_to_close(now)) {
    close_anonymous(closing->id, closing->cause);
  }
  const auto holding = holding_fds_;  // a copy, because connections that end leave the original
  for (const auto& [id, since] : holding) {
    if (now - since >= limits_.anonymous.idle) {
      hang_up(id,
              "sent descriptors with a request that did not end in time (limits.anonymous_idle_s)");
    }
  }
  for (const auto& [reason, lines] : limiter_.take_left_out(now)) {
    log::warning("lines-left-out", {{"lines", lines}, {"reason", reason}});
  }
  sweeping_ = false;
  const bool again = anonymous_.strangers() > 0 || !holding_fds_.empty() || limiter_.has_left_out();
  if (again) begin_sweeping();
}

Connection* Server::Core::find(ConnectionId id) const {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : at->second.get();
}

ConnectionCounts Server::Core::counts() const {
  ConnectionCounts counts = closed_;
  counts.anonymous = anonymous_.strangers();
  counts.operators = anonymous_.operators();
  counts.identified = counted() - counts.anonymous;
  counts.limit = limits_.connections;
  return counts;
}

void Server::Core::stop_listening() {
  for (const auto& acceptor : acceptors_) acceptor->close();
  acceptors_.clear();
  spares_.clear();
}

void Server::Core::stop() {
  stop_listening();
  sweep_.cancel();
  sweeping_ = true;  // no more sweeps
  // closed() may look for other connections; the table is empty already.
  const auto ended = std::exchange(connections_, {});
  open_ = 0;
  for (const auto& [id, connection] : ended) connection->close();
  for (const auto& [id, connection] : ended) {
    anonymous_.remove(id);
    service_.closed(id);
  }
}

Server::Server(asio::io_context& io, Service& service, Limits limits, Security security)
    : core_(std::make_shared<Core>(io, service, limits, std::move(security))) {}

Server::~Server() {
  stop();
}

Result<std::string> Server::listen(const ListenOptions& options) {
  return core_->listen(options);
}

ConnectionId Server::latest() const {
  return core_->latest();
}

ConnectionId Server::adopt(UniqueFd socket) {
  return core_->adopt(std::move(socket));
}

std::optional<Peer> Server::peer(ConnectionId connection) const {
  const Connection* found = core_->find(connection);
  return found == nullptr ? std::nullopt : std::optional(found->peer());
}

ConnectionCounts Server::counts() const {
  return core_->counts();
}

void Server::disconnect(ConnectionId connection, std::string_view reason) {
  if (Connection* found = core_->find(connection)) found->end(reason);
}

void Server::stop_listening() {
  core_->stop_listening();
}

void Server::stop() {
  core_->stop();
}

}  // namespace tally::rpc
