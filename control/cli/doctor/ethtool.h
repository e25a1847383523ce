// The statistics of a network driver, as `ethtool -S` shows them.
#pragma once

#include <string>

#include "base/result.h"
#include "control/cli/doctor/system.h"

namespace tally::control::doctor {

// Returns kUnsupported when the driver has no statistics.
Result<Statistics> read_ethtool_statistics(const std::string& interface);

}  // namespace tally::control::doctor
