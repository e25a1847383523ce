// The network that a file of machines describes.
#pragma once

#include <string_view>

#include "base/result.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/model/network.h"
#include "control/plan/model/pcie.h"

namespace tally::plan {

// Without racks and switches: star_network() of the machines. Else each machine is joined to the
// switch of its rack, or to "core" when it has none, and racks and switches are joined as the file
// says. The vertices are the machines in the order of the file, then the switches of the racks,
// then the other switches. The rack of a vertex is the place of the rack in the file. The network
// has passed validate(), and each machine reaches each other one. An error names the machine whose
// speed is unknown or that another one does not reach, and the remedy.
Result<Network> network_of(const MachineFile& file);

// A link for each measured pair, without switches: for machines whose pairs do not share what is
// between them. The speeds of the machines limit the links of a machine together. An error names a
// machine whose speed is unknown, or says that there are no machines or no pairs.
Result<Network> network_of_pairs(const MachineFile& file);

// Reads a file of a network ("tally-network/1") or of machines ("tally-machines/1", network_of()).
// An error names the place, the value and what it must be. Never throws. read_pcie: as for
// read_network().
Result<Network> read_network_or_machines(std::string_view text, const ReadPcie& read_pcie = {});

}  // namespace tally::plan
