// The next hops of a port beside the kernel: what was found of them, and when to ask the kernel
// again. Pure: answers and `now` in. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/roce/port/next_hops.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

struct HopTableOptions {
  std::size_t most_entries = 512;
  Nanos retry = 10 * kMillisecond;  // between questions while the kernel asks the network
  Nanos renewal = kSecond;          // between questions about an address that is in use
  Nanos lifetime = 60 * kSecond;    // an address is in use so long after resolve()
};

class HopTable {
 public:
  explicit HopTable(const HopTableOptions& options = {});

  // As NextHops::resolve(). An address that is new is due at once.
  Resolution resolve(const IpAddress& target, Nanos now);

  // An address to ask the kernel about now; record() takes the answer. Forgets addresses that are
  // not in use.
  std::optional<IpAddress> next_due(Nanos now);
  // The kernel's answer. While the kernel asks the network, the MAC address of before serves.
  void record(const IpAddress& target, const Resolution& answer, Nanos now);
  // No address is due before. kForever: there is none.
  Nanos next_deadline() const;

  std::size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    IpAddress target{};
    Resolution found{.reach = Reach::kAsked};
    Nanos due = 0;
    Nanos used_until = 0;
    bool answered = false;  // ever
  };

  Entry* find(const IpAddress& target);

  HopTableOptions options_;
  std::vector<Entry> entries_;
};

}  // namespace tally::transport::roce
