// The statistics that a network driver keeps, as `ethtool -S` shows them.
#pragma once

#include <string>

#include "base/result.h"
#include "control/doctor/system.h"

namespace tally::control::doctor {

// kUnsupported: this driver keeps none.
Result<Statistics> read_ethtool_statistics(const std::string& interface);

}  // namespace tally::control::doctor
