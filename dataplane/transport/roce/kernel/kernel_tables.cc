#include "dataplane/transport/roce/kernel/kernel_tables.h"

namespace tally::transport::roce {

Resolution look_up(KernelTables& tables, const IpAddress& target) {
  const RouteAnswer route = tables.route_to(target);
  if (!route.is_answered) return {.reach = Reach::kAsked};
  if (!route.hop) return {.reach = Reach::kNoRoute};
  const HopEntry entry = tables.entry(*route.hop);
  // The kernel does not see the packets of the port, so it would take an entry for unused. Its use
  // has the kernel verify the entry from time to time. An entry that an operator made is kKnown and
  // stays as it is.
  switch (entry.state) {
    case HopState::kKnown:
      return {.reach = Reach::kKnown, .mac = entry.mac};
    case HopState::kStale:
      tables.use(*route.hop);
      return {.reach = Reach::kKnown, .mac = entry.mac};
    case HopState::kAsking:
      return {.reach = Reach::kAsked};
    case HopState::kFailed:
      tables.use(*route.hop);
      return {.reach = Reach::kUnreachable};
    case HopState::kNone:
      tables.use(*route.hop);
      return {.reach = Reach::kAsked};
  }
  return {.reach = Reach::kAsked};
}

}  // namespace tally::transport::roce
