// Trees of shards for tests, and what an operation over one has to give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/reference.h"

namespace tally::testing {

// A vertex and its children that are ranks; parents come before their children, the root is first.
struct TreePlace {
  std::size_t parent = 0;  // of the root: itself
  std::vector<std::uint16_t> ranks;
};
using TreeShape = std::vector<TreePlace>;

std::vector<std::size_t> children_of(const TreeShape& tree, std::size_t vertex);
std::vector<std::uint16_t> ranks_below(const TreeShape& tree, std::size_t vertex);  // ascending
std::uint32_t height_of(const TreeShape& tree, std::size_t vertex);

// As compute_expected(), by the tree: at each vertex its ranks in rank order, then the partial sums
// of its branches, by the scalar kernel.
void compute_expected_in(const TreeShape& tree, const protocol::Shape& shape,
                         std::span<const std::byte* const> inputs, Expected& expected);

}  // namespace tally::testing
