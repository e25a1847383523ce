// Requests the facts of a running job from the coordinator and the nodes, for its prediction.
#pragma once

#include <string>
#include <vector>

#include "perf/options/options.h"
#include "perf/prediction/prediction.h"

namespace tally::perf {

// Precondition: all ranks have their sessions. `rank_hosts` has the known hosts by rank. The result
// is an error when the file of --network cannot be read or is wrong. When nodes do not answer, the
// prediction has no time, and it says so.
Result<Prediction> query_plan(const Options& options, std::vector<std::string> rank_hosts);

}  // namespace tally::perf
