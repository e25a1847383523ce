// The file of a network, "tally-network/1": machines, racks, switches and links, written by hand.
// docs/planning.md has every key.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/plan/model/network.h"
#include "control/plan/model/pcie.h"

namespace tally::plan {

inline constexpr std::string_view kNetworkFormat = "tally-network/1";
// The remedy for a file of a network, or of machines, in place of a plan.
inline constexpr std::string_view kMakeAPlan =
    "make a plan of it: tallyctl plan make --network FILE";
inline constexpr std::size_t kMaxNetworkBytes = 16 << 20;

// Parses and validates the text. The vertices are the machines in the order of the file, then the
// switches of the racks, then the other switches, with "core" last if it is used and not listed.
// The rack of a machine, and of the switch of a rack, is the rack's place in the file. Links are
// sorted by their ends. The network has passed validate(), and each machine reaches each other one.
// An error names the place, the value and what it must be. Never throws. read_pcie reads the files
// that the key "hwloc" of machines names; where it is empty, the key is refused.
Result<Network> read_network(std::string_view text, const ReadPcie& read_pcie = {});

// Writes one line for each machine, rack, switch and link. read_network() of the text gives a
// network with the same vertices and links. If switches of racks were not first among the switches,
// their order changes. Racks are numbered again, and a rack without a switch is left out. A vertex
// without a name, or with the name of another vertex, gets a name. Preconditions: the network has
// passed validate(), and names have at most 256 bytes.
std::string write_network(const Network& network);

}  // namespace tally::plan
