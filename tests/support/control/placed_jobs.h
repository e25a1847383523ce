// For tests: records of jobs that are placed, without a coordinator.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "control/coordinator/state/jobs/job_table.h"
#include "tests/support/control/coordinator_fixture.h"

namespace tally::control {

// A job of two ranks. Node n has the tree n - 1 by the placement 10 * epoch + n.
inline JobRecord job_record(std::uint32_t epoch, const std::vector<NodeId>& nodes,
                            const char* name = "train") {
  JobRecord job;
  job.name = name;
  job.lock.digest = *digest_of("t");
  job.epoch = epoch;
  job.ranks = 2;
  for (const NodeId node : nodes) {
    PlanNode& one = job.nodes.emplace_back();
    one.node = node;
    one.placement = 10 * epoch + node;
    one.member = member(std::string(1, static_cast<char>('a' + node - 1)).c_str());
    one.trees = {static_cast<std::uint32_t>(node - 1)};
  }
  return job;
}

}  // namespace tally::control
