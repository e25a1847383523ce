// Checks whether a cluster can serve a plan, whatever its members are. It is pure.
#pragma once

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/served_limits.h"

namespace tally::plan {

// An error names the place in the domain, the value and the limit. Precondition: the plan has
// passed validate() with max_height kServedHeight, the default.
Outcome check_served(const Network& network, const Domain& domain);

// Checks all domains of the plan, and its text.
Outcome check_served(const Plan& plan);

}  // namespace tally::plan
