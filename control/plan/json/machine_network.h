// The network that a file of machines describes.
#pragma once

#include <string_view>

#include "base/result.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/model/network.h"
#include "control/plan/model/pcie.h"

namespace tally::plan {

// Without racks and switches: star_network() of the machines, and for each pair that is narrow one
// way, a link each way. Else each machine is joined to the switch of its rack, or to "core" when it
// has none, and racks and switches are joined as the file says; pairs do not count. The vertices
// are the machines in the order of the file, then the switches of the racks, then the other
// switches. The rack of a vertex is the place of the rack in the file. The network has passed
// validate(), and each machine reaches each other one. An error names the machine whose speed is
// unknown or that another one does not reach, and the remedy.
Result<Network> network_of(const MachineFile& file);

// Returns the speed at which the NICs of both machines of the pair would carry it, where the pair
// was measured more than a tenth slower: something between the machines limits it. Else, or where a
// speed is unknown, 0. Precondition: `pair` is of the file.
double nics_of_narrow(const MachineFile& file, const MachinePair& pair);

// Reads a file of a network ("tally-network/1") or of machines ("tally-machines/1", network_of()).
// An error names the place, the value and what it must be. Never throws. read_pcie: as for
// read_network().
Result<Network> read_network_or_machines(std::string_view text, const ReadPcie& read_pcie = {});

}  // namespace tally::plan
