// Measures the largest packet that reaches another host, with datagrams that routers must not
// fragment. A host without a socket at the port answers so, which shows that the datagram arrived
// whole. No program needs to run on that host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::control::doctor {

// The result of one datagram.
enum class Answer : std::uint8_t {
  kArrived,  // the host answered that no socket is at the port, or a program replied
  kTooBig,   // this machine or a router reports that it does not fit; mtu() has the new limit
  kNothing,  // no answer: the host dropped it silently, or it or its answer was lost
};

// Sends datagrams to one address, never fragmented.
class Prober {
 public:
  virtual ~Prober() = default;
  // Returns the kernel's value of the path MTU: the interface's MTU, or a router's report.
  virtual Result<std::uint32_t> mtu() = 0;
  // Sends a packet and waits for an answer. `packet_bytes` includes all headers from IP on.
  virtual Result<Answer> probe(std::uint32_t packet_bytes) = 0;
};

struct PathMtu {
  std::string address;
  std::uint32_t mtu = 0;      // the kernel's value
  std::uint32_t arrived = 0;  // the largest packet that arrived; 0 when none did
  std::string failure;        // why no packet could be sent; empty on success
};

// Reads the path MTU. When the largest packet gets no answer, also tries smaller ones. Measures
// only the direction to the host.
Result<PathMtu> measure_path(Prober& prober, std::string address);

// Returns one result for each address family (IPv4, IPv6) of the host's name.
Result<std::vector<PathMtu>> measure_paths(const std::string& host);

}  // namespace tally::control::doctor
