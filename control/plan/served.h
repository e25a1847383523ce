// What a cluster can serve of a plan, whoever its members are: the one place that says so, for who
// writes plans and for who takes them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "control/plan/plan.h"

namespace tally::plan {

// Nodes have tile slots for vertices of so many heights (docs/decisions/0010-trees.md).
inline constexpr std::uint32_t kServedHeight = 4;
// Of a domain: each tree of it that differs from the others is one at least of a job.
inline constexpr std::size_t kServedTrees = 256;
// Of a domain: coordinators add one for operations that they do not divide.
inline constexpr std::size_t kServedClasses = 63;
// Of a vertex with other nodes below it.
inline constexpr std::size_t kServedChildren = 256;
// Of a plan's text, as write_plan() has it.
inline constexpr std::size_t kServedBytes = 2 << 20;

// An error names the place in the domain, the value and the bound. Precondition: the plan has
// passed validate(), by default for kServedHeight.
Outcome check_served(const Network& network, const Domain& domain);

// All its domains, and its text.
Outcome check_served(const Plan& plan);

}  // namespace tally::plan
