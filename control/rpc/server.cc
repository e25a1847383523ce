#include "control/rpc/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <asio.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "client/tcp.h"
#include "control/log.h"
#include "control/rpc/connection.h"
#include "control/rpc/message.h"

namespace tally::rpc {

// Held by shared_ptr so that what is still in the event loop finds it, or finds it gone.
class Server::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(asio::io_context& io, Service& service, Limits limits)
      : io_(io), service_(service), limits_(limits), pause_(io) {}

  Result<std::string> listen(const ListenOptions& options);
  ConnectionId adopt(UniqueFd socket);
  ConnectionId latest() const { return last_id_; }
  Connection* find(ConnectionId id) const;
  void stop_listening();
  void stop();

 private:
  // Somewhere that connections come in.
  struct Door {
    explicit Door(asio::io_context& io) : acceptor(io) {}
    Listener listener;
    asio::posix::stream_descriptor acceptor;  // a duplicate of the listener's descriptor
  };
  using SharedDoor = std::shared_ptr<Door>;

  void wait_acceptable(const SharedDoor& door);
  void accept(const SharedDoor& door);
  void take(UniqueFd socket);
  void wait_for_descriptors(const SharedDoor& door);
  void refuse(UniqueFd socket) const;

  asio::io_context& io_;
  Service& service_;
  const Limits limits_;
  std::vector<SharedDoor> doors_;
  asio::steady_timer pause_;
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  ConnectionId last_id_ = 0;
};

Result<std::string> Server::Core::listen(const ListenOptions& options) {
  auto opened = Listener::open(options);
  if (!opened) return opened.error();
  UniqueFd duplicate(::fcntl(opened->fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) {
    return Error{Status::kNoMemory, fmt::format("no descriptor left: {}", std::strerror(errno))};
  }
  const auto door = std::make_shared<Door>(io_);
  std::error_code failed;
  door->acceptor.assign(duplicate.get(), failed);
  if (failed) {
    return Error{Status::kInternal,
                 fmt::format("cannot wait for connections: {}", failed.message())};
  }
  duplicate.release();  // it is the acceptor's now
  door->listener = std::move(opened).value();
  doors_.push_back(door);
  wait_acceptable(door);
  return door->listener.address();
}

void Server::Core::wait_acceptable(const SharedDoor& door) {
  door->acceptor.async_wait(asio::posix::stream_descriptor::wait_read,
                            [weak = weak_from_this(), door](const std::error_code& error) {
                              const auto self = weak.lock();
                              if (self && !error) self->accept(door);
                            });
}

void Server::Core::accept(const SharedDoor& door) {
  constexpr int kAcceptsPerTurn = 16;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(
        ::accept4(door->acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      take(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return wait_for_descriptors(door);
    } else if (errno != ECONNABORTED && errno != EINTR) {
      break;
    }
  }
  wait_acceptable(door);
}

void Server::Core::take(UniqueFd socket) {
  client::notice_vanished_peers(socket.get());  // a Unix socket has no such options
  if (connections_.size() >= limits_.connections) return refuse(std::move(socket));
  try {
    adopt(std::move(socket));
  } catch (const std::exception& failure) {  // no memory, or no room in the event loop
    log::error("accept-failed", {{"error", failure.what()}});
  }
}

// The connection stays in the backlog, readable: without a pause the loop would spin on it.
void Server::Core::wait_for_descriptors(const SharedDoor& door) {
  log::error("accept-failed", {{"error", std::strerror(errno)},
                               {"remedy", "raise the limit of open files (RLIMIT_NOFILE)"}});
  pause_.expires_after(std::chrono::milliseconds(100));
  pause_.async_wait([weak = weak_from_this(), door](const std::error_code& error) {
    const auto self = weak.lock();
    if (self && !error) self->accept(door);
  });
}

void Server::Core::refuse(UniqueFd socket) const {
  const std::string line = format_error(
      nullptr, Status::kRefused,
      fmt::format("the node has {} connections and takes no more", limits_.connections));
  // A new socket takes a line; if not, the hang-up must do.
  static_cast<void>(::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

ConnectionId Server::Core::adopt(UniqueFd socket) {
  const ConnectionId id = ++last_id_;
  auto ended = [weak = weak_from_this()](ConnectionId over) {
    const auto self = weak.lock();
    if (self && self->connections_.erase(over) > 0) self->service_.closed(over);
  };
  auto connection =
      std::make_shared<Connection>(io_, std::move(socket), id, limits_, service_, std::move(ended));
  connections_.emplace(id, connection);
  connection->start();
  return id;
}

Connection* Server::Core::find(ConnectionId id) const {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : at->second.get();
}

void Server::Core::stop_listening() {
  std::error_code ignored;
  for (const SharedDoor& door : doors_) door->acceptor.close(ignored);
  pause_.cancel();
  doors_.clear();
}

void Server::Core::stop() {
  stop_listening();
  // closed() may look at other connections; those are gone already.
  const auto ended = std::exchange(connections_, {});
  for (const auto& [id, connection] : ended) connection->close();
  for (const auto& [id, connection] : ended) service_.closed(id);
}

Server::Server(asio::io_context& io, Service& service, Limits limits)
    : core_(std::make_shared<Core>(io, service, limits)) {}

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

std::optional<PeerCredentials> Server::peer(ConnectionId connection) const {
  const Connection* found = core_->find(connection);
  return found == nullptr ? std::nullopt : std::optional(found->peer());
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
