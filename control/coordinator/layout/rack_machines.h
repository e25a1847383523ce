// The members as machines in racks, for which the coordinator plans trees by itself. Pure.
#pragma once

#include <optional>

#include "control/coordinator/records/store.h"
#include "control/plan/json/machines_json.h"

namespace tally::control {

// The members by name, with the link of each rack. nullopt when no member has a rack. Members
// without a rack are joined to the switch above the racks. An unknown speed of a NIC counts as the
// mean of the known ones, or as 1 GB/s when none is known. An unknown speed of a rack's link counts
// as half of the NICs of the rack together. The order in which members joined does not count.
// Precondition: lost NICs are marked (without_lost_rails()).
std::optional<plan::MachineFile> rack_machines(const Members& members);

}  // namespace tally::control
