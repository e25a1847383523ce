// The peer at the other end of a connection. On a Unix socket the kernel identifies it; on TCP its
// address does.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "net/auth/key_ring.h"

namespace tally::rpc {

struct Peer {
  // Set for a Unix socket. On TCP `uid` is the largest uid, which no user has.
  pid_t pid = 0;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  // Name for log lines and messages: "10.0.0.1:40112", "pid 4711, uid 1000".
  std::string name;
  // The unit that has limits of its own: "10.0.0.1", "fd00:0:0:1::/64", "uid 1000".
  std::string source;
  // "10.0.0.1"; empty for a Unix socket.
  std::string host;
  // True when the peer came by a Unix socket as root or as the node's own user. Such a peer could
  // also stop the node.
  bool is_operator = false;

  // What a peer over TCP has proved by TLS.
  std::optional<net::auth::Proof> proof;

  bool is_local() const { return uid != static_cast<uid_t>(-1); }
};

Peer peer_of(int socket);

// Returns the source of a TCP address: an IPv4 address, or the /64 network of an IPv6 address,
// because one machine may have all addresses of that network.
std::string source_of(const sockaddr_storage& address);

}  // namespace tally::rpc
