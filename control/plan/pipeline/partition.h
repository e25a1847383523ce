// Divides a chain of blocks over GPUs in a given order, such that the slowest stage or transfer
// takes the least time: the bottleneck of the steady state.
//
// Source: the dynamic program of PipeDream (Narayanan et al., SOSP '19, section 3.1), with the GPUs
// of the first stage in the state. So transfers between stages of unequal numbers of replicas, and
// the microbatches in flight, are exact. It equals a search of all divisions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "control/plan/pipeline/stage_cost.h"

namespace tally::plan::pipeline {

// The end of a stage: the first block, and the first place of the order, that are not its own.
struct Cut {
  std::size_t end_block = 0;
  std::size_t end_gpu = 0;

  bool operator==(const Cut&) const = default;
};

struct Stage {
  std::size_t first_block = 0;
  std::size_t end_block = 0;
  std::vector<std::size_t> gpus;       // indices in Cluster::gpus
  std::vector<std::size_t> recompute;  // blocks, ascending
  std::size_t in_flight = 0;           // microbatches of each replica
  double compute = 0;                  // seconds of a microbatch, all replicas together
  double sync = 0;                     // seconds of each sum of gradients that nothing hides
  double time = 0;                     // seconds of a microbatch in the steady state
  double transfer = 0;  // seconds to send a microbatch to the next stage; the last: 0
  double memory = 0;    // bytes of each replica
};

struct Partition {
  std::vector<std::size_t> order;  // of the GPUs, indices in Cluster::gpus
  std::vector<Stage> stages;
  // Seconds of a microbatch in the steady state: the largest `time` or `transfer`.
  double bottleneck = 0;
  // Predicted seconds of an iteration of synchronous 1F1B with Options::microbatches.
  double iteration = 0;
};

// Returns the cuts of the least bottleneck, one for each stage, if it is less than `limit`. Nothing
// when no division fits the memories. Every GPU gets a stage. Of equal divisions it returns the one
// whose first stages have the fewest blocks. O(L^2 G^3) for L blocks and G GPUs; it stops early
// where the time is above the best.
std::optional<std::vector<Cut>> least_bottleneck(const StageCosts& costs, double limit);

// Returns what a division costs, or nothing when a stage does not fit its memory. Precondition: the
// cuts rise in both numbers, and end with all blocks and all GPUs.
std::optional<Partition> evaluate(const StageCosts& costs, const std::vector<Cut>& cuts);

// Recomputes further blocks where that leaves the bottleneck as it is and takes less memory. In a
// partition for the least iteration time this would change the time, so it leaves that as it is.
void balance_memory(const StageCosts& costs, Partition& partition);

// The time of an iteration of synchronous 1F1B: the first microbatch passes all stages, the
// others follow at the pace of the slowest stage or transfer, and then gradients are summed.
//
//   sum of (compute + transfer) + (microbatches - 1) * max(compute, transfer) + max(sync)
//
// Sources: Alpa (Zheng et al., OSDI '22, equation 2), DAPPLE (Fan et al., PPoPP '21).
double iteration_time(const std::vector<Stage>& stages, std::uint32_t microbatches);

}  // namespace tally::plan::pipeline
