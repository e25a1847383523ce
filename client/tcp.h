// Plain TCP between tools and nodes, beside the control protocol. Addresses are "host:port",
// "[fd00::1]:port", "*:port" to listen everywhere. Nothing here waits without an end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

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

// Of the two ends, numeric and with the brackets that an address needs; empty: not TCP.
std::string local_host(int socket);
std::string remote_host(int socket);

}  // namespace tally::client
