// Where a node listens and where it is looked for. Both sides use these, so that a node and a
// client which are started without any option find each other.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::client {

inline constexpr std::string_view kSystemAddress = "unix:/run/tally/tallyd.sock";

// Somewhere to connect to, or to listen at.
struct SocketAddress {
  sockaddr_storage socket{};
  socklen_t bytes = 0;
};

inline constexpr std::string_view kTcpScheme = "tcp:";

// "tcp:host:port", "tcp:[fd00::1]:7733", "tcp:*:7733" (to listen everywhere). Looks names up, which
// may take as long as the system's resolver takes. In the order in which they should be tried.
Result<std::vector<SocketAddress>> resolve_tcp(std::string_view address, bool to_listen);

// "10.0.0.1", without the port; empty for what is not an internet address.
std::string host_of(const sockaddr_storage& socket);

// This machine's address on the way to that one (numeric), by its routes as they are now.
Result<std::string> local_host_towards(const std::string& host);

struct UnixAddress {
  std::string path;
  sockaddr_un socket{};
};

// "unix:/path" or "/path"; an error says what is wrong with it and what would be right.
Result<UnixAddress> parse_address(std::string_view address);

// Where a node of this user listens by default: kSystemAddress for root, else in the user's own
// $XDG_RUNTIME_DIR, or /tmp/tally-<uid> where there is none.
std::string default_listen_address();

// Where a client looks by default: $TALLY_ADDRESS, else kSystemAddress if there is a socket, else
// this user's own node.
std::string default_connect_address();

// "tcp:a:7733,tcp:b:7733": its parts, at least one.
std::vector<std::string> split_addresses(std::string_view text);

// $TALLY_HOST, else this machine's name: what nodes and ranks of one host have in common.
std::string host_name();

// $TALLY_TRANSPORT: the transport that a session has to take; empty: the best that works.
std::string default_transport();

// $TALLY_CHECKSUMS: whether a session gives checksums, "1" or "0"; not set: false.
Result<bool> default_checksums();

}  // namespace tally::client
