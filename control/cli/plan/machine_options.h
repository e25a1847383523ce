// The machines that the options of tallyctl plan make name.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "control/plan/model/network.h"

namespace tally::control {

// Returns the machines of the file `measured`, which tallyctl probe writes, and then those of
// --worker and --helper (NAME=SPEED[,sum=SPEED]). An empty `measured` is no file. An error names
// the option, its value and what it must be.
Result<std::vector<plan::Vertex>> parse_machines(const std::string& measured,
                                                 const std::vector<std::string>& workers,
                                                 const std::vector<std::string>& helpers);

}  // namespace tally::control
