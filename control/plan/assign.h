// Which tree carries which tensor, where tensors travel whole: by weight, never by hash (hashes
// leave trees that take 1.1 to 3 times as long as the others; docs/planning.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tally::plan {

struct Assignment {
  std::vector<std::uint32_t> tree_of;  // by tensor
  std::vector<std::uint64_t> bytes;    // by tree
  // The largest of the trees' bytes over what their weights would have given them; 1 is even.
  // What is slower by this much is the tree; a machine has other load too and suffers less.
  double imbalance = 1;
};

// Greedy: the largest tensor first, each to the tree that would have finished with it first, that
// is with the least (its bytes + the tensor's) / weight; ties go to the lower index. The same
// answer on every machine. O(tensors x trees). Preconditions: at least one weight above 0; sizes in
// bytes, below 2^53 in sum. `before`: bytes that the trees have without these tensors; none or one
// for each.
Assignment assign(std::span<const std::uint64_t> sizes, std::span<const std::uint32_t> weights,
                  std::span<const std::uint64_t> before = {});

}  // namespace tally::plan
