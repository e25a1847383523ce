// TCP between tools and nodes: below the control protocol, and plain beside it. Addresses are
// "host:port", "[fd00::1]:port", "*:port" to listen everywhere. Nothing here waits without an end;
// deadlines are points on the clock of monotonic_now().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "client/address.h"

namespace tally::client {

struct HostPort {
  std::string host;  // as it was written, brackets included
  std::uint16_t port = 0;

  std::string text() const;
  std::string tcp_address() const { return "tcp:" + text(); }
};
// The error says what is wrong with the text, and what `flag` it was given with.
Result<HostPort> parse_host_port(const std::string& flag, const std::string& text);

// Port 0: any that is free, see local_port().
Result<UniqueFd> listen_tcp(const HostPort& where);
std::uint16_t local_port(int socket);
// Of a connection that came, if one did; vanished peers are noticed.
std::optional<UniqueFd> accept_tcp(int listener);
// Tries again until the deadline while nobody listens there.
Result<UniqueFd> connect_tcp(const HostPort& where, Nanos deadline);

// One attempt at one address.
struct Attempt {
  UniqueFd socket;  // non-blocking; none: this process can have no more of them
  int error = 0;    // why it is not connected, an errno
};
Attempt try_tcp(const SocketAddress& target, Nanos deadline);

// A peer that vanishes without a word is noticed within seconds, also while nothing is said. For
// other sockets than TCP's nothing changes.
void notice_vanished_peers(int socket);
// Waits for one of these events (poll(2)) or the hang-up; false: the deadline came first.
bool wait_for(int fd, short events, Nanos deadline);

// Of the two ends, numeric: "10.0.0.1", "fd00::1"; empty: not TCP.
std::string local_host(int socket);
std::string remote_host(int socket);
// With the brackets that such a host needs before a port, if it has none yet.
std::string bracketed(std::string_view host);

}  // namespace tally::client
