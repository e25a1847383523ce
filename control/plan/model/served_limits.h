// The limits of plans that a cluster can serve, whatever its members are. Only this file has them,
// for the code that writes plans and for the code that takes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally::plan {

// The heights of vertices for which nodes keep tiles and buffers (docs/decisions/0010-trees.md).
inline constexpr std::uint32_t kServedHeight = 4;
// Of a domain. Each tree that differs from the others becomes at least one tree of a job, and two
// when its results go another way.
inline constexpr std::size_t kServedTrees = 256;
// Of a domain. The coordinator adds one more class, for operations that it does not divide.
inline constexpr std::size_t kServedClasses = 63;
// Of a vertex with other nodes below it. A worker's own gradient counts as one.
inline constexpr std::size_t kServedChildren = 256;
// Of the plan's text, as write_plan() writes it.
inline constexpr std::size_t kServedBytes = 2 << 20;

}  // namespace tally::plan
