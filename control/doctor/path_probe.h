// How large a packet gets to another host: found out with datagrams that routers may not cut.
// A host that has no socket at a port says so, and with that it says that the datagram arrived
// whole. Nobody has to run anything there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::control::doctor {

// What came of one datagram.
enum class Answer : std::uint8_t {
  kArrived,  // the host answered that nobody listens there
  kTooBig,   // this machine or a router says that it does not fit; mtu() knows the new limit
  kNothing,  // it arrived and was swallowed, or it was lost, or the answer was
};

// Datagrams to one address, never cut.
class Prober {
 public:
  virtual ~Prober() = default;
  // What the kernel takes for the path's MTU: its interface's, or what a router has said.
  virtual Result<std::uint32_t> mtu() = 0;
  // Sends a packet of so many bytes, all headers from IP on included, and waits for an answer.
  virtual Result<Answer> probe(std::uint32_t packet_bytes) = 0;
};

struct PathMtu {
  std::string address;
  std::uint32_t mtu = 0;      // what the kernel takes for it
  std::uint32_t arrived = 0;  // the largest packet that was seen to arrive; 0: none was
  std::string failure;        // why nothing could be sent; empty: it could
};

// Asks for the path's MTU, and where the largest packet gets no answer, whether smaller ones do.
// Only this direction is looked at.
Result<PathMtu> measure_path(Prober& prober, std::string address);

// One for each family of addresses (IPv4, IPv6) that the host's name has.
Result<std::vector<PathMtu>> measure_paths(const std::string& host);

}  // namespace tally::control::doctor
