// The plan that a coordinator makes by itself for machines in racks.
#pragma once

#include "base/result.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// Returns plan_by_size() of the network that the file describes (machine_network.h), for all its
// workers together, with epoch 0. Nodes can serve it (served.h). A network of many machines takes
// seconds. The same file has the same plan. Errors: a machine's speed is unknown, fewer than two
// machines are workers, and those of plan_by_size() and check_served().
Result<Plan> plan_for_racks(const MachineFile& file);

}  // namespace tally::plan
