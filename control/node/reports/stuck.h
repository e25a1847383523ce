// The operation of a job that is stuck or has failed: what kind of cause it has, which ranks or
// which node, and since when. Pure: what the shards found in, JSON out.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/node/jobs/job_instance.h"
#include "dataplane/protocol/verdicts/stalls.h"

namespace tally::control {

// Names of the job's nodes that the instance knows, by number from 1; empty where it knows none.
std::vector<std::string> node_names(const JobInstance& instance);

// Returns a list of {"kind", "who", "ranks", "node", "since_ms", "tag", "round", "text"}, empty
// when the job is well. `node` is left out where ranks are to blame. `since_ms`: how long ago it
// began. All stalls of the list are of one operation, the oldest one at any shard, because the
// others may wait for it. A failure comes last. It is left out after a later operation has
// succeeded at any shard.
nlohmann::json stuck_json(const std::vector<protocol::Health>& by_shard,
                          std::span<const std::string> nodes, Nanos now);

}  // namespace tally::control
