// Divides a chain of blocks over GPUs in a given order, such that an iteration of synchronous 1F1B
// takes the least time (iteration_time() in partition.h has the formula).
//
// Source: the enumeration of Alpa (Zheng et al., OSDI '22, section 5.2). For each possible pace of
// the slowest stage or transfer, from the fastest on, a dynamic program finds the least sum of the
// others. The search ends when the least sum of all and the pace are no better than the best found.
// Here each state keeps all pairs (sum of times, longest sync) that no other beats in both, so the
// syncs count exactly, too.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "control/plan/pipeline/partition.h"

namespace tally::plan::pipeline {

// Stages of all blocks and GPUs that the search keeps in memory.
inline constexpr std::size_t kMostStages = 8'000'000;

// Returns the cuts of the least iteration time, if it is less than `limit`. Nothing when no
// division fits. With Options::gap above 0, paces that differ by less are taken together, and the
// result is within 1 + gap of the least. Errors: more than kMostStages stages. O(L^2 G^3) for each
// pace that it tries. Precondition: the costs have the objective kIteration.
Result<std::optional<std::vector<Cut>>> least_iteration(const StageCosts& costs, double limit);

}  // namespace tally::plan::pipeline
