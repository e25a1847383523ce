#include "dataplane/transport/roce/kernel/kernel_tables.h"

namespace tally::transport::roce {

Resolution look_up(KernelTables& tables, const IpAddress& target) {
  const RouteAnswer route = tables.route_to(target);
  if (!route.is_answered) return {.reach = Reach::kAsked};
  if (!route.hop) return {.reach = Reach::kNoRoute};
  const HopEntry entry = tables.entry(*route.hop);
  // The kernel does not see the port's packets, so it would take the entry for unused and would not
  // verify it. An operator's permanent entry is kKnown or kUnusable. An entry of unknown state may
  // be permanent. So neither is used.
  switch (entry.state) {
    case HopState::kKnown:
      return {.reach = Reach::kKnown, .mac = entry.mac};
    case HopState::kStale:
      tables.use(*route.hop);
      return {.reach = Reach::kKnown, .mac = entry.mac};
    case HopState::kAsking:
    case HopState::kNotRead:
      return {.reach = Reach::kAsked};
    case HopState::kUnusable:
      return {.reach = Reach::kUnreachable};
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
