#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/system/fd.h"

namespace tally::net {
namespace {

constexpr std::string_view kScheme = "unix:";

// Uses secure_getenv(), because a caller's environment must not redirect a set-user-id program.
std::string_view environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

// `host`: nullptr means any host. `given`: the address as the user wrote it.
Result<std::vector<SocketAddress>> look_up(const char* host, const std::string& port, int flags,
                                           std::string_view given) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host, port.c_str(), &hints, &found);
  if (error != 0) {
    return Error{Status::kUnavailable,
                 fmt::format("address \"{}\": {}", given, ::gai_strerror(error))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& next = addresses.emplace_back();
    std::memcpy(&next.socket, one->ai_addr, one->ai_addrlen);
    next.bytes = one->ai_addrlen;
  }
  return addresses;
}

}  // namespace

Result<std::vector<SocketAddress>> resolve_tcp(std::string_view address, bool to_listen) {
  std::string_view text = address;
  if (text.starts_with(kTcpScheme)) text.remove_prefix(kTcpScheme.size());
  const auto colon = text.rfind(':');
  std::string host(text.substr(0, colon == std::string_view::npos ? 0 : colon));
  const std::string port(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || port.empty()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("address \"{}\" is not understood: write tcp:host:port", address)};
  }
  return look_up(host == "*" ? nullptr : host.c_str(), port,
                 AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0), address);
}

std::string host_of(const sockaddr_storage& socket) {
  if (socket.ss_family != AF_INET && socket.ss_family != AF_INET6) return {};
  sockaddr_in6 v6{};
  std::memcpy(&v6, &socket, sizeof v6);
  if (v6.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    sockaddr_storage plain{};
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    std::memcpy(&plain, &v4, sizeof v4);
    return host_of(plain);
  }
  char text[INET6_ADDRSTRLEN + 32] = {};
  const int error = ::getnameinfo(reinterpret_cast<const sockaddr*>(&socket), sizeof socket, text,
                                  sizeof text, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

Result<std::string> local_host_towards(const std::string& host) {
  // Numeric, because the host may come from another machine, and a name would take a resolver's
  // time.
  const auto addresses = look_up(host.c_str(), "9", AI_NUMERICHOST | AI_NUMERICSERV, host);
  if (!addresses) return addresses.error();
  const SocketAddress& there = addresses->front();
  // connect() of a datagram socket needs a route, but no listener.
  const UniqueFd socket(::socket(there.socket.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress here;
  here.bytes = sizeof here.socket;
  const bool found =
      socket &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there.socket), there.bytes) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here.socket), &here.bytes) == 0;
  if (found) return host_of(here.socket);
  return Error{Status::kUnavailable, fmt::format("no way to {}: {}; `ip route get {}` says more",
                                                 host, std::strerror(errno), host)};
}

Result<UnixAddress> parse_address(std::string_view address) {
  std::string_view path = address;
  if (path.starts_with(kScheme)) {
    path.remove_prefix(kScheme.size());
  } else if (!path.starts_with('/')) {
    return Error{Status::kInvalidArgument,
                 fmt::format("address \"{}\" is not understood: write unix:/path/of/the/socket or "
                             "tcp:host:port",
                             address)};
  }
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return Error{Status::kInvalidArgument,
                 fmt::format("address \"{}\" has no path: write unix:/path/of/the/socket",
                             address.substr(0, address.find('\0')))};
  }
  UnixAddress parsed;
  constexpr std::size_t kMaxPath = sizeof(parsed.socket.sun_path) - 1;
  if (path.size() > kMaxPath) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("socket path \"{}\" has {} bytes; Unix sockets allow {}: use a shorter "
                    "path",
                    path, path.size(), kMaxPath)};
  }
  parsed.path = path;
  parsed.socket.sun_family = AF_UNIX;
  std::memcpy(parsed.socket.sun_path, path.data(), path.size());
  return parsed;
}

std::string default_listen_address() {
  if (::geteuid() == 0) return std::string(kSystemAddress);
  if (const auto directory = environment("XDG_RUNTIME_DIR"); !directory.empty()) {
    return fmt::format("unix:{}/tally/tallyd.sock", directory);
  }
  return fmt::format("unix:/tmp/tally-{}/tallyd.sock", ::geteuid());
}

std::string default_connect_address() {
  if (const auto address = environment("TALLY_ADDRESS"); !address.empty()) {
    return std::string(address);
  }
  struct stat info {};
  const std::string system(kSystemAddress);
  if (::stat(system.c_str() + kScheme.size(), &info) == 0 && S_ISSOCK(info.st_mode)) return system;
  return default_listen_address();
}

std::vector<std::string> split_addresses(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    if (comma == text.size()) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string host_name() {
  if (const auto name = environment("TALLY_HOST"); !name.empty()) return std::string(name);
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string default_transport() {
  return std::string(environment("TALLY_TRANSPORT"));
}

Result<bool> default_checksums() {
  const auto text = environment("TALLY_CHECKSUMS");
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return Error{Status::kInvalidArgument,
               fmt::format("TALLY_CHECKSUMS=\"{}\": 1 for checksums, 0 for none", text)};
}

Result<bool> default_finish() {
  const auto text = environment("TALLY_ON_RANK_LOSS");
  if (text.empty() || text == "fail") return false;
  if (text == "finish") return true;
  return Error{Status::kInvalidArgument,
               fmt::format("TALLY_ON_RANK_LOSS=\"{}\": fail to end the job when a rank is lost, "
                           "finish to go on without the rank",
                           text)};
}

Result<std::uint32_t> default_quorum(std::uint32_t ranks) {
  const auto text = environment("TALLY_QUORUM");
  if (text.empty()) return 0U;
  std::uint32_t quorum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quorum);
  if (error == std::errc() && end == text.data() + text.size() && quorum <= ranks) return quorum;
  return Error{Status::kInvalidArgument,
               fmt::format("TALLY_QUORUM=\"{}\": must be 0 to {}, a number of ranks of the job",
                           text, ranks)};
}

}  // namespace tally::net
