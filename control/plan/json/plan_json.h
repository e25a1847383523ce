// The plan file, which is JSON of the format "gsplan/1". docs/planning.md has every key.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

inline constexpr std::string_view kPlanFormat = "gsplan/1";
inline constexpr std::size_t kMaxPlanBytes = 16 << 20;
inline constexpr std::size_t kLongestName = 256;  // bytes, of a node or a domain

// What the plan is made for: "allreduce" or "rs-ag" (SizeClass::rs_ag).
std::string_view objective(const Plan& plan);

// Reads any text. Checks types, ranges and sizes, and refuses unknown keys. The caller must call
// validate() afterwards. An error names the place ("domains[0].classes[1].chunk"), the value and
// what it must be. Never throws.
Result<Plan> read_plan(std::string_view text);

// Writes one line for each vertex, link and tree. read_plan() of the text gives the same plan.
std::string write_plan(const Plan& plan);

}  // namespace tally::plan
