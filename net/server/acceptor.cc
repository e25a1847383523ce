#include "net/server/acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace tally::rpc {
namespace {

constexpr int kAcceptsPerTurn = 16;
constexpr auto kPause = std::chrono::milliseconds(100);

bool is_exhausted(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<std::shared_ptr<Acceptor>> Acceptor::open(asio::io_context& io, const ListenOptions& options,
                                                 Owner owner) {
  auto opened = Listener::open(options);
  if (!opened) return opened.error();
  UniqueFd duplicate(::fcntl(opened->fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) {
    return Error{Status::kNoMemory, fmt::format("no descriptor left: {}", std::strerror(errno))};
  }
  auto acceptor = std::make_shared<Acceptor>(io);
  std::error_code failed;
  acceptor->socket_.assign(duplicate.get(), failed);
  if (failed) {
    return Error{Status::kInternal,
                 fmt::format("cannot wait for connections: {}", failed.message())};
  }
  duplicate.release();  // socket_ owns it now
  acceptor->listener_ = std::move(opened).value();
  acceptor->owner_ = std::move(owner);
  acceptor->wait();
  return acceptor;
}

void Acceptor::wait() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const std::error_code& error) {
                       const auto self = weak.lock();
                       if (self && !error) self->accept();
                     });
}

// The connection stays in the backlog, so the listener stays readable. Without a pause the loop
// would spin.
void Acceptor::pause() {
  pause_.expires_after(kPause);
  pause_.async_wait([weak = weak_from_this()](const std::error_code& error) {
    const auto self = weak.lock();
    if (self && !error) self->accept();
  });
}

void Acceptor::accept() {
  for (int i = 0; i < kAcceptsPerTurn && socket_.is_open(); ++i) {
    UniqueFd socket(
        ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      owner_.take(std::move(socket));
    } else if (is_exhausted(errno)) {
      if (!owner_.make_room(errno)) return pause();
    } else if (errno != ECONNABORTED && errno != EINTR) {
      break;
    }
  }
  if (socket_.is_open()) wait();
}

void Acceptor::close() {
  std::error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
}

}  // namespace tally::rpc
