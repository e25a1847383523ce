// Chooses the tree of each tensor that travels whole. The choice goes by weight and not by hash.
// With hashes some trees take 1.1 to 3 times as long as the others (docs/planning.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tally::plan {

struct Assignment {
  std::vector<std::uint32_t> tree_of;  // by tensor
  std::vector<std::uint64_t> bytes;    // by tree
  // The largest ratio of a tree's bytes to the bytes that its weight would give it; 1 is even. The
  // tree is slower by this factor. A machine also has other load, so it is slower by less.
  double imbalance = 1;
};

// Greedy: takes the largest tensor first, and gives each tensor to the tree that would finish it
// first. That is the tree with the least (bytes of the tree + bytes of the tensor) / weight. On a
// tie the lower index wins. The result is the same on every machine. O(tensors x trees). `sizes`:
// bytes, below 2^53 in sum. `before`: bytes that the trees carry besides these tensors; empty, or
// one for each tree. Precondition: at least one weight is above 0.
Assignment assign(std::span<const std::uint64_t> sizes, std::span<const std::uint32_t> weights,
                  std::span<const std::uint64_t> before = {});

}  // namespace tally::plan
