// TCP between tools and nodes, for the control protocol and for plain connections. Addresses are
// "host:port", "[fd00::1]:port", or "*:port" to listen on all interfaces. Every wait ends;
// deadlines are times on the clock of monotonic_now().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "net/address.h"

namespace tally::net {

struct HostPort {
  std::string host;  // as the user wrote it, with brackets
  std::uint16_t port = 0;

  std::string text() const;
  std::string tcp_address() const { return "tcp:" + text(); }
};
// The error names the defect of the text and the `flag` that had it. With `any_port` the port may
// be 0, for listening.
Result<HostPort> parse_host_port(const std::string& flag, const std::string& text,
                                 bool any_port = false);

// Port 0 means any free port; local_port() returns it.
Result<UniqueFd> listen_tcp(const HostPort& where);
std::uint16_t local_port(int socket);
// Accepts a connection if there is one.
std::optional<UniqueFd> accept_tcp(int listener);
// Connects. Tries again until the deadline while no process listens there.
Result<UniqueFd> connect_tcp(const HostPort& where, Nanos deadline);

// The result of one attempt at one address.
struct Attempt {
  UniqueFd socket;  // non-blocking; none: the process has no free descriptor
  int error = 0;    // errno of the failure; 0 when connected
};
Attempt try_tcp(const SocketAddress& target, Nanos deadline);

// Makes the kernel notice within seconds a peer that vanishes without a message, also on an idle
// connection. Connections that a listening socket accepts inherit this from it. Changes nothing for
// sockets that are not TCP.
void notice_vanished_peers(int socket);
// Waits for one of these events (poll(2)) or the hang-up. False: the deadline came first.
bool wait_for(int fd, short events, Nanos deadline);

// The numeric hosts of the two ends, such as "10.0.0.1" or "fd00::1"; empty when the socket is not
// TCP.
std::string local_host(int socket);
std::string remote_host(int socket);
// Adds the brackets that an IPv6 host needs before a port, if they are missing.
std::string bracketed(std::string_view host);

}  // namespace tally::net
