// A plan on another network than that for which it was made: on links that have been measured
// again, or on links that shall be bought.
#pragma once

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// Returns the plan with the same trees on this network, without certificates and sections.
// Machines are the same if their names are. Helpers that the plan does not have are in no tree. An
// error names what the network lacks: a machine, the name of one, its role of a worker, or the
// route of an edge; or a worker of the network that the plan does not have.
// Preconditions: the plan has passed validate() with any max_height, and so has the network.
Result<Plan> on_network(const Plan& plan, const Network& network);

}  // namespace tally::plan
