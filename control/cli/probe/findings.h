// What the figures of a survey say of the network.
#pragma once

#include <string>
#include <vector>

#include "control/plan/json/machines_json.h"
#include "control/plan/racks/rack_search.h"

namespace tally::control::probe {

// Returns one line of text for each pair that is more than a tenth slower than both machines' NICs,
// the slowest pair first. The network between them is the bottleneck, so it has no full bisection
// bandwidth.
std::vector<std::string> narrow_pairs(const plan::MachineFile& file);

// Gives each machine that was not measured with all others at once the speed of its fastest pair.
void fill_in(plan::MachineFile& file);

// Adds the racks to the file, as "rack1" and so on, and gives their machines the names. If the name
// of a machine begins with "rack", the names of racks begin with "rack-". Precondition: the
// machines of the search are those of the file.
void add_racks(plan::MachineFile& file, const std::vector<plan::racks::Rack>& racks);

// Returns one line of text for each rack: its machines, and its speeds to and from the others.
std::vector<std::string> describe_racks(const plan::MachineFile& file);

}  // namespace tally::control::probe
