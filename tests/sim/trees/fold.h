// What a tree has to give: the sum at each vertex, one element at a time, of ranks' elements first,
// then partial sums, left to right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/trees/plan.h"

namespace tally::sim::trees {

// The result of elements [first, first + count) of a reduction, that the tree has: `inputs[rank]`
// is the whole contribution of each rank.
std::vector<std::byte> fold_tree(const Tree& tree, const protocol::Shape& shape,
                                 std::span<const std::byte* const> inputs, std::uint64_t first,
                                 std::uint64_t count);

}  // namespace tally::sim::trees
