// Sections of a plan for trainings in which not all workers sum together: the stages of a pipeline,
// and groups that train asynchronously. Each of their groups of workers is a plan domain, and so a
// job, of its own. control/plan/pipeline and control/plan/groups compute what the sections hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::plan {

inline constexpr std::size_t kMaxRanks = 4096;   // of a pipeline
inline constexpr std::size_t kMaxStages = 1024;  // of a pipeline
inline constexpr std::uint32_t kMaxModelBlocks = 1 << 20;

// Blocks first_block to end_block - 1 of the model. Each rank has a replica of them.
struct StageSection {
  std::uint32_t first_block = 0;
  std::uint32_t end_block = 0;
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint32_t> recompute;  // blocks, ascending
  std::uint32_t in_flight = 1;           // microbatches of each replica
  std::string domain;                    // sums the gradients of the replicas
};

struct PipelineSection {
  std::vector<std::uint32_t> order;  // ranks along the pipeline: those of all stages
  std::vector<StageSection> stages;
  double bottleneck = 0;  // predicted seconds of a microbatch
};

struct AsyncSection {
  std::uint32_t root = 0;                      // the vertex of the parameter server: a helper
  std::vector<std::string> groups;             // plan domains
  std::optional<std::uint32_t> max_staleness;  // empty: any
  std::vector<std::uint32_t> local_steps;      // by group
};

struct Plan;

// Checks the plan's sections against its domains and vertices. An error names the place as in the
// file, the value, and what it must be. Precondition: the plan's network and domains are valid.
Outcome validate_sections(const Plan& plan);

}  // namespace tally::plan
