// Plan files for pipelines and asynchronous groups: a plan domain of stars, and so a job, for the
// replicas of each stage or the workers of each group, and the section that joins them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "control/plan/groups/planner.h"
#include "control/plan/json/groups_json.h"
#include "control/plan/json/pipeline_json.h"
#include "control/plan/model/plan.h"
#include "control/plan/pipeline/planner.h"

namespace tally::control {

// What a plan file has besides the plan itself.
struct PlanFileOptions {
  std::uint64_t epoch = 1;
  std::string job_prefix;  // the names of plan domains, and so of jobs, begin with it
};

// The plan domain of a stage or group, and so its job: the prefix, and "st0" or "dp0".
std::string stage_job(const std::string& prefix, std::size_t stage);
std::string group_job(const std::string& prefix, std::size_t group);

// Nodes are the servers of the file, and ranks are GPUs, numbered in the order of the file. The
// domains are those of stage_job().
Result<plan::Plan> pipeline_plan(const plan::GpuFile& file, const plan::pipeline::Cluster& cluster,
                                 const plan::pipeline::Partition& partition,
                                 const PlanFileOptions& options);

// Nodes are the workers, and the parameter server as a helper. The domains are those of
// group_job().
Result<plan::Plan> groups_plan(const plan::StepsFile& file, const plan::groups::GroupPlan& groups,
                               const plan::groups::Limits& limits, const PlanFileOptions& options);

}  // namespace tally::control
