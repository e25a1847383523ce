// The election and store of this node's configuration (cluster.store).
#pragma once

#include "base/result.h"
#include "control/config/config.h"
#include "control/coordinator/store/leadership.h"

namespace tally::control {

// Reads the password. Precondition: cluster.store is not empty, and the configuration is checked.
Result<LeadershipOptions> leadership_options(const ClusterConfig& cluster);

}  // namespace tally::control
