// Whether a plan is possible. Nothing plans, stores or obeys one that has not passed.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "control/plan/plan.h"
#include "control/plan/served.h"

namespace tally::plan {

inline constexpr double kMinSpeed = 1;     // bytes per second
inline constexpr double kMaxSpeed = 1e15;  // bytes per second

struct Limits {
  // Classes of slots that every node keeps: a vertex whose longest way down to a worker has h hops
  // uses class h, so no tree may be higher.
  std::uint32_t max_height = kServedHeight;
};

// Vertices and links by themselves. An error names the place as in the file, the value, and what it
// must be.
Outcome validate(const Network& network);

// The network, and then: every domain's workers; classes in order, the last for any size; weights
// that sum to 65536; trees that span their domain's workers, have one root, no circle, leaves that
// are workers of the domain, a route for every edge in both directions, and no more than
// limits.max_height levels; a certificate that agrees with the loads of the last class.
Outcome validate(const Plan& plan, const Limits& limits);

}  // namespace tally::plan
