// What a node is asked to serve of a placed job: its trees, and the addresses of their child shards
// and parents as this node reaches them. A function of the job's record alone.
#pragma once

#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/records/store.h"

namespace tally::control {

// Precondition: node is one of job.nodes.
JobAssignment assignment_of(const JobRecord& job, const PlanNode& node);

}  // namespace tally::control
