// The addresses at which a node listens and at which a client looks for it. Nodes and clients use
// the same functions, so that they find each other when neither has options.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::net {

inline constexpr std::string_view kSystemAddress = "unix:/run/tally/tallyd.sock";

// An address to connect to or to listen at.
struct SocketAddress {
  sockaddr_storage socket{};
  socklen_t bytes = 0;
};

inline constexpr std::string_view kTcpScheme = "tcp:";

// Resolves "tcp:host:port", "tcp:[fd00::1]:7733", or "tcp:*:7733" (to listen on all interfaces).
// The result is in the order in which the caller should try the addresses. Name lookup can take as
// long as the system's resolver takes.
Result<std::vector<SocketAddress>> resolve_tcp(std::string_view address, bool to_listen);

// Returns the numeric host without the port, such as "10.0.0.1". An IPv6 socket that has an IPv4
// address as ::ffff:10.0.0.1 gives the IPv4 form. Empty when the address is not an internet
// address.
std::string host_of(const sockaddr_storage& socket);

// Returns the numeric address from which this machine reaches `host`, by its present routes.
// Precondition: `host` is numeric, else the result is an error.
Result<std::string> local_host_towards(const std::string& host);

struct UnixAddress {
  std::string path;
  sockaddr_un socket{};
};

// Parses "unix:/path" or "/path". The error names the defect and the correct form.
Result<UnixAddress> parse_address(std::string_view address);

// Returns where a node of this user listens by default: kSystemAddress for root, else a socket in
// $XDG_RUNTIME_DIR, or in /tmp/tally-<uid> when that variable is not set.
std::string default_listen_address();

// Returns where a client looks by default: $TALLY_ADDRESS, else kSystemAddress when a socket is
// there, else default_listen_address().
std::string default_connect_address();

// Splits "tcp:a:7733,tcp:b:7733" at the commas. Returns at least one part.
std::vector<std::string> split_addresses(std::string_view text);

// Returns $TALLY_HOST, else this machine's name. Nodes and ranks of one host have the same name.
std::string host_name();

// Returns $TALLY_TRANSPORT: the transport that a session must use; empty for the best that works.
std::string default_transport();

// Returns whether a session gives checksums by $TALLY_CHECKSUMS: "1" true, "0" or not set false,
// other values an error.
Result<bool> default_checksums();

// Returns whether a session goes on without a rank that is lost, by $TALLY_ON_RANK_LOSS: "finish"
// true, "fail" or not set false, other values an error.
Result<bool> default_finish();

// Returns $TALLY_QUORUM: the least number of ranks with which a job goes on, at most `ranks`; 0
// when it is not set. Other values are an error.
Result<std::uint32_t> default_quorum(std::uint32_t ranks);

}  // namespace tally::net
