// What the coordinator and the nodes say of a job that runs, for its prediction.
#pragma once

#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/prediction.h"

namespace tally::perf {

// What --network names, a file of machines or a plan's; nothing where it names nothing. The error
// has the flag and the path.
Result<NetworkFile> read_network(const std::string& path);

// Asks while all ranks have their sessions. `rank_hosts`: by rank, as far as they are known. An
// error: the file of --network cannot be read, or is wrong. Nodes that do not answer leave the
// prediction without a time, and it says so.
Result<Prediction> ask_plan(const Options& options, std::vector<std::string> rank_hosts);

}  // namespace tally::perf
