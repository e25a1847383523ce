// To which MAC address packets to an IP address go: that of the other end, or of a gateway to it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

enum class Reach : std::uint8_t {
  kKnown,
  kAsked,        // ask again later
  kUnreachable,  // no answer to any request
  kNoRoute,      // no route from the port leads there
  kTableFull,    // all entries are in use
};

struct Resolution {
  Reach reach = Reach::kNoRoute;
  MacAddress mac{};  // of kKnown: of the address or of its gateway

  bool operator==(const Resolution&) const = default;
};

class SharedResolver;

// Any thread. No function waits.
class NextHops {
 public:
  virtual ~NextHops() = default;

  virtual Resolution resolve(const IpAddress& target, Nanos now) = 0;
  // What answers the port's frames that are not RoCE. Null where the kernel answers them.
  virtual SharedResolver* responder() { return nullptr; }
};

}  // namespace tally::transport::roce
