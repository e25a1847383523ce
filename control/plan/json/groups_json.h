// The file from which tallyctl plan groups plans: JSON of the format "tally-steps/1", with the
// workers' measured times of a step. docs/pipelines.md has every key.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/plan/groups/problem.h"

namespace tally::plan {

inline constexpr std::string_view kStepsFormat = "tally-steps/1";
inline constexpr std::size_t kMaxStepsBytes = 1 << 20;

struct StepsFile {
  groups::Problem problem;  // each worker has a name, and no other has it
  std::string server;       // name of the parameter server
};

// An error names the place, the value and what it must be. Never throws.
Result<StepsFile> read_steps(std::string_view text);

// Writes one line for each worker. read_steps() of the text gives the same file.
std::string write_steps(const StepsFile& file);

}  // namespace tally::plan
