// Checks whether a plan is possible. No code makes, stores or follows a plan that has not passed.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/served_limits.h"

namespace tally::plan {

inline constexpr double kMinSpeed = 1;     // bytes per second
inline constexpr double kMaxSpeed = 1e15;  // bytes per second

struct Limits {
  // The classes of buffers that every node keeps. A vertex whose longest way down to a worker has h
  // hops uses class h, so no tree may be higher.
  std::uint32_t max_height = kServedHeight;
};

// Checks the vertices and links alone. An error names the place as in the file, the value, and what
// it must be.
Outcome validate(const Network& network);

// Checks the network, then every domain:
// - its name is unique, and its workers are workers of the network;
// - its classes are in order, each has a chunk, and the last is for any size;
// - the weights of each class sum to 65536;
// - each tree has one root, no circle and all workers of the domain, and its leaves are workers of
//   the domain;
// - `down`, where given, has the same root as `up`;
// - each edge of a tree has a route in the directions that it carries;
// - no tree has more than limits.max_height levels;
// - its tensors have rising tags;
// - its certificate agrees with the loads of the last class, and its lower bound is proved by its
//   dual, if it has one; for reduce-scatter and all-gather there is none;
// - classes with SizeClass::rs_ag are as its comment says.
// Then it checks the sections of pipelines and asynchronous groups (sections.h).
Outcome validate(const Plan& plan, const Limits& limits);

}  // namespace tally::plan
