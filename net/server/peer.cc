#include "net/server/peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "net/tcp.h"

namespace tally::rpc {
namespace {

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

Peer tcp_peer(const sockaddr_storage& address) {
  Peer peer;
  peer.source = source_of(address);
  if (address.ss_family == AF_INET) {
    sockaddr_in inet{};
    std::memcpy(&inet, &address, sizeof inet);
    peer.name = fmt::format("{}:{}", text_of(AF_INET, &inet.sin_addr), ntohs(inet.sin_port));
  } else {
    sockaddr_in6 inet{};
    std::memcpy(&inet, &address, sizeof inet);
    peer.name = fmt::format("[{}]:{}", text_of(AF_INET6, &inet.sin6_addr), ntohs(inet.sin6_port));
  }
  return peer;
}

}  // namespace

std::string source_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in inet{};
    std::memcpy(&inet, &address, sizeof inet);
    return text_of(AF_INET, &inet.sin_addr);
  }
  if (address.ss_family != AF_INET6) return "unknown";
  sockaddr_in6 inet{};
  std::memcpy(&inet, &address, sizeof inet);
  // An IPv4 peer of a socket that accepts both versions.
  if (IN6_IS_ADDR_V4MAPPED(&inet.sin6_addr)) {
    return text_of(AF_INET, &inet.sin6_addr.s6_addr[12]);
  }
  std::memset(&inet.sin6_addr.s6_addr[8], 0, 8);
  return text_of(AF_INET6, &inet.sin6_addr) + "/64";
}

Peer peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  const bool known = ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (known && (address.ss_family == AF_INET || address.ss_family == AF_INET6)) {
    Peer peer = tcp_peer(address);
    peer.host = net::host_of(address);
    return peer;
  }
  Peer peer;
  peer.name = peer.source = "unknown";
  ucred read{};
  bytes = sizeof read;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &read, &bytes) != 0) return peer;
  peer.pid = read.pid;
  peer.uid = read.uid;
  peer.gid = read.gid;
  peer.name = fmt::format("pid {}, uid {}", read.pid, read.uid);
  peer.source = fmt::format("uid {}", read.uid);
  peer.is_operator = read.uid == 0 || read.uid == ::geteuid();
  return peer;
}

}  // namespace tally::rpc
