// The kernel's routes, and its table of MAC addresses (ARP and neighbour discovery). Rtnetlink
// reads the real ones; tests have others.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/transport/roce/port/next_hops.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// What the kernel knows of a MAC address: its states NUD_* (ip-neighbour(8)).
enum class HopState : std::uint8_t {
  kNotRead,  // the kernel did not say
  kNone,     // no entry, or an empty one
  kAsking,   // the kernel has asked, and no answer is there
  kKnown,
  kStale,     // known, and for long no packet has come from there
  kUnusable,  // known, but no single host can have this MAC address
  kFailed,
};

struct HopEntry {
  HopState state = HopState::kNone;
  MacAddress mac{};  // of kKnown and kStale
};

struct RouteAnswer {
  bool is_answered = false;        // false: the kernel did not say
  std::optional<IpAddress> hop{};  // the address or a gateway; none: no route
};

// One thread. Each function may wait for the kernel's locks.
class KernelTables {
 public:
  virtual ~KernelTables() = default;

  // By routes of the port's interface alone. Without one, the kernel takes an IPv4 address for one
  // of a host on the link.
  virtual RouteAnswer route_to(const IpAddress& target) = 0;
  virtual HopEntry entry(const IpAddress& hop) = 0;
  // Makes the kernel resolve the address as if it sent a packet there: it asks for an unknown MAC
  // address, and verifies a stale one. A permanent entry becomes empty.
  virtual void use(const IpAddress& hop) = 0;
};

// What the tables say about packets to the target. Makes the kernel ask where they do not know.
Resolution look_up(KernelTables& tables, const IpAddress& target);

}  // namespace tally::transport::roce
