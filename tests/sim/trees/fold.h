// The expected result of a tree: each vertex sums one element at a time, first its ranks' elements,
// then its children's partial sums, left to right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/trees/plan.h"

namespace tally::sim::trees {

// The tree's result for elements [first, first + count) of a reduction. `inputs[rank]` is the whole
// contribution of the rank.
std::vector<std::byte> fold_tree(const Tree& tree, const protocol::Shape& shape,
                                 std::span<const std::byte* const> inputs, std::uint64_t first,
                                 std::uint64_t count);

}  // namespace tally::sim::trees
