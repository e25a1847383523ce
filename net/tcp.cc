#include "net/tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace tally::net {
namespace {

constexpr int kBacklog = 64;
constexpr Nanos kHandshake = 3 * kSecond;
constexpr useconds_t kPauseUs = 20'000;
constexpr int kKeepaliveSeconds = 5;
constexpr int kKeepaliveProbes = 5;

Error unavailable(const HostPort& where, const char* what, int number) {
  return Error{Status::kUnavailable,
               fmt::format("cannot {} {}: {}", what, where.text(), std::strerror(number))};
}

std::string host_at(int socket, decltype(&::getsockname) end) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (end(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  return host_of(address);
}

}  // namespace

std::string HostPort::text() const {
  return fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_host_port(const std::string& flag, const std::string& text, bool any_port) {
  std::string_view rest = text;
  if (rest.starts_with(kTcpScheme)) rest.remove_prefix(kTcpScheme.size());
  const auto colon = rest.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos && colon != 0) {
    const std::string_view port = rest.substr(colon + 1);
    const char* end = port.data() + port.size();
    const auto number = std::from_chars(port.data(), end, parsed.port);
    if (number.ec != std::errc{} || number.ptr != end) parsed.port = 0;
    parsed.host = rest.substr(0, colon);
  }
  if (parsed.port != 0 || (any_port && text.ends_with(":0") && !parsed.host.empty())) return parsed;
  return Error{Status::kInvalidArgument,
               fmt::format("{} {}: write host:port, with a port from 1 to 65535", flag, text)};
}

Result<UniqueFd> listen_tcp(const HostPort& where) {
  const auto addresses = resolve_tcp(where.tcp_address(), true);
  if (!addresses.ok()) return addresses.error();
  int number = 0;
  for (const SocketAddress& one : *addresses) {
    UniqueFd socket(::socket(one.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (socket) notice_vanished_peers(socket.get());
    const auto* address = reinterpret_cast<const sockaddr*>(&one.socket);
    if (socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(socket.get(), address, one.bytes) == 0 && ::listen(socket.get(), kBacklog) == 0) {
      return socket;
    }
    number = errno;
  }
  return unavailable(where, "listen at", number);
}

std::uint16_t local_port(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes);
  sockaddr_in inet{};
  sockaddr_in6 inet6{};
  std::memcpy(&inet, &address, sizeof inet);
  std::memcpy(&inet6, &address, sizeof inet6);
  return ntohs(address.ss_family == AF_INET6 ? inet6.sin6_port : inet.sin_port);
}

std::optional<UniqueFd> accept_tcp(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return std::nullopt;
  return socket;
}

bool wait_for(int fd, short events, Nanos deadline) {
  for (;;) {
    const Nanos left = deadline - monotonic_now();
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    // Rounded up, so that the last wait does not spin. Limited, so that it fits an int.
    const Nanos ms = std::min<Nanos>((left + kMillisecond - 1) / kMillisecond, 1'000'000);
    if (::poll(&entry, 1, static_cast<int>(ms)) > 0) return true;
  }
}

void notice_vanished_peers(int socket) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, (kKeepaliveSeconds + kKeepaliveProbes) * 1000);
}

Attempt try_tcp(const SocketAddress& target, Nanos deadline) {
  const auto* address = reinterpret_cast<const sockaddr*>(&target.socket);
  Attempt attempt{
      UniqueFd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const int socket = attempt.socket.get();
  if (!attempt.socket) {
    attempt.error = errno;
    return attempt;
  }
  notice_vanished_peers(socket);
  if (::connect(socket, address, target.bytes) == 0) return attempt;
  attempt.error = errno;
  if (attempt.error != EINPROGRESS) return attempt;
  attempt.error = ETIMEDOUT;
  socklen_t bytes = sizeof attempt.error;
  if (wait_for(socket, POLLOUT, deadline)) {
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &attempt.error, &bytes);
  }
  return attempt;
}

Result<UniqueFd> connect_tcp(const HostPort& where, Nanos deadline) {
  const auto addresses = resolve_tcp(where.tcp_address(), false);
  if (!addresses.ok()) return addresses.error();
  for (;;) {
    int number = 0;
    for (const SocketAddress& one : *addresses) {
      Attempt attempt = try_tcp(one, monotonic_now() + kHandshake);
      number = attempt.error;
      if (number == 0) return std::move(attempt.socket);
    }
    const bool may_be_starting = number == ECONNREFUSED || number == ETIMEDOUT ||
                                 number == EHOSTUNREACH || number == ENETUNREACH;
    if (!may_be_starting || monotonic_now() >= deadline) {
      return unavailable(where, "connect to", number);
    }
    ::usleep(kPauseUs);
  }
}

std::string local_host(int socket) {
  return host_at(socket, &::getsockname);
}

std::string remote_host(int socket) {
  return host_at(socket, &::getpeername);
}

std::string bracketed(std::string_view host) {
  const bool v6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return v6 ? fmt::format("[{}]", host) : std::string(host);
}

}  // namespace tally::net
