// The plan file: JSON, format "gsplan/1" (docs/planning.md has every key).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/plan/plan.h"

namespace tally::plan {

inline constexpr std::string_view kPlanFormat = "gsplan/1";
inline constexpr std::size_t kMaxPlanBytes = 16 << 20;

// Checks types, ranges and sizes, and that nothing is there that is not known; validate() must
// follow. Any text may be given: an error names the place ("domains[0].classes[1].chunk"), the
// value and what it must be. Never throws.
Result<Plan> read_plan(std::string_view text);

// A line for each vertex, link and tree. read_plan() of it gives the same plan.
std::string write_plan(const Plan& plan);

}  // namespace tally::plan
