// Reads the file of a network that a command line names.
#pragma once

#include <string>

#include "base/result.h"
#include "control/plan/model/network.h"

namespace tally::control {

// Reads the file of a network (network_json.h) or of machines, and the files of hwloc's XML that it
// names relative to its own folder. Errors as those of read_plan_file().
Result<plan::Network> read_network_file(const std::string& path);

}  // namespace tally::control
