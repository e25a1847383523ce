// Plan files for pipelines and asynchronous groups: a plan domain of stars, and so a job, for the
// replicas of each stage or the workers of each group, and the section that joins them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "control/plan/groups/planner.h"
#include "control/plan/json/groups_json.h"
#include "control/plan/json/pipeline_json.h"
#include "control/plan/model/plan.h"
#include "control/plan/pipeline/planner.h"

namespace tally::control {

// Nodes are the servers of the file, and ranks are GPUs, numbered in the order of the file. The
// domains are "st0", "st1" and so on.
Result<plan::Plan> pipeline_plan(const plan::GpuFile& file, const plan::pipeline::Cluster& cluster,
                                 const plan::pipeline::Partition& partition, std::uint64_t epoch);

// Nodes are the workers, and the parameter server as a helper. The domains are "dp0", "dp1" and so
// on.
Result<plan::Plan> groups_plan(const plan::StepsFile& file, const plan::groups::GroupPlan& groups,
                               const plan::groups::Limits& limits, std::uint64_t epoch);

}  // namespace tally::control
