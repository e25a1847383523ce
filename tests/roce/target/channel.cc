#include "tests/roce/target/channel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "net/tcp.h"

namespace tally::transport::roce::target {
namespace {

Error lost(const char* what) {
  return {Status::kPeerLost,
          fmt::format("{}: the other end has closed the TCP connection{}", what,
                      errno == 0 ? "" : std::string(": ") + std::strerror(errno))};
}

}  // namespace

Result<Channel> Channel::open(Target& target, int listener) {
  const Options& options = target.options();
  if (options.is_client()) {
    auto socket = net::connect_tcp({net::bracketed(options.host), options.tcp_port},
                                   monotonic_now() + options.timeout);
    if (!socket) return socket.error();
    return Channel(target, std::move(*socket));
  }
  std::optional<UniqueFd> socket;
  const auto accept = [&] {
    socket = net::accept_tcp(listener);
    return socket.has_value();
  };
  // A server waits without a limit. Meanwhile the port answers requests for its MAC address.
  while (!accept()) target.progress();
  return Channel(target, std::move(*socket));
}

Outcome Channel::write(std::string_view bytes) {
  return run_until(*target_, "a write over TCP", [&] {
    const ssize_t count =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    return bytes.empty();
  });
}

Result<std::string> Channel::receive(std::size_t bytes, int flags) {
  std::string text(bytes, '\0');
  std::size_t have = 0;
  bool is_closed = false;
  auto done = run_until(*target_, "a read over TCP", [&] {
    const ssize_t count =
        ::recv(socket_.get(), text.data() + have, bytes - have, flags | MSG_DONTWAIT);
    const bool has_failed = count < 0 && errno != EAGAIN && errno != EINTR;
    is_closed = count == 0 || has_failed;
    if (count == 0) errno = 0;
    if (count > 0 && ((flags & MSG_PEEK) == 0 || static_cast<std::size_t>(count) == bytes)) {
      have += static_cast<std::size_t>(count);
    }
    return is_closed || have == bytes;
  });
  if (!done) return done.error();
  if (is_closed) return lost("a read over TCP");
  return text;
}

Result<std::string> Channel::read(std::size_t bytes) {
  return receive(bytes, 0);
}

Result<std::string> Channel::peek(std::size_t bytes) {
  return receive(bytes, MSG_PEEK);
}

}  // namespace tally::transport::roce::target
