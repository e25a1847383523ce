#include "client/tcp.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "client/address.h"
#include "client/rpc_channel.h"

namespace tally::client {
namespace {

constexpr int kBacklog = 64;
constexpr Nanos kHandshake = 3 * kSecond;
constexpr useconds_t kPauseUs = 20'000;

Error unavailable(const HostPort& where, const char* what, int number) {
  return Error{Status::kUnavailable,
               fmt::format("cannot {} {}: {}", what, where.text(), std::strerror(number))};
}

// One attempt; the errno of its failure.
int connect_once(int socket, const SocketAddress& target) {
  const auto* address = reinterpret_cast<const sockaddr*>(&target.socket);
  if (::connect(socket, address, target.bytes) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd entry{socket, POLLOUT, 0};
  if (::poll(&entry, 1, static_cast<int>(kHandshake / kMillisecond)) <= 0) return ETIMEDOUT;
  int number = 0;
  socklen_t bytes = sizeof number;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &number, &bytes);
  return number;
}

std::string host_at(int socket, decltype(&::getsockname) end) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (end(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  const std::string host = host_of(address);
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

std::string HostPort::text() const {
  return fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_host_port(const std::string& flag, const std::string& text) {
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
  if (parsed.port != 0) return parsed;
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
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto* address = reinterpret_cast<const sockaddr*>(&one.socket);
    if (socket && ::bind(socket.get(), address, one.bytes) == 0 &&
        ::listen(socket.get(), kBacklog) == 0) {
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
  notice_vanished_peers(socket.get());
  return socket;
}

Result<UniqueFd> connect_tcp(const HostPort& where, Nanos deadline) {
  const auto addresses = resolve_tcp(where.tcp_address(), false);
  if (!addresses.ok()) return addresses.error();
  for (;;) {
    int number = 0;
    for (const SocketAddress& one : *addresses) {
      UniqueFd socket(
          ::socket(one.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      notice_vanished_peers(socket.get());
      number = connect_once(socket.get(), one);
      if (number == 0) return socket;
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

}  // namespace tally::client
