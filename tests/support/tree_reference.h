// Trees of shards for tests, and the expected result of an operation over one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/reference.h"

namespace tally::testing {

// A vertex and its children that are ranks. In a TreeShape parents come before their children, and
// the root is first.
struct TreePlace {
  std::size_t parent = 0;  // index of the parent; the root's own index for the root
  std::vector<std::uint16_t> ranks;
};
using TreeShape = std::vector<TreePlace>;

std::vector<std::size_t> children_of(const TreeShape& tree, std::size_t vertex);
std::vector<std::uint16_t> ranks_below(const TreeShape& tree, std::size_t vertex);  // ascending
std::uint32_t height_of(const TreeShape& tree, std::size_t vertex);

// Like compute_expected(), along the tree: each vertex sums its ranks in rank order, then the
// partial sums of its child nodes, with the scalar kernel.
void compute_expected_in(const TreeShape& tree, const protocol::Shape& shape,
                         std::span<const std::byte* const> inputs, Expected& expected);

}  // namespace tally::testing
