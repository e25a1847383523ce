// Sums of a vertex, one element at a time: ranks' elements first, then partial sums, left to right.
// A stand-in for the kernels, and what a whole tree has to give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/trees/plan.h"

namespace tally::sim::trees {

struct Fold {
  ElementType type = ElementType::kF32;          // of the inputs
  ElementType partial_type = ElementType::kF32;  // of the partial sums
  ElementType result_type = ElementType::kF32;   // one of both
  Operation operation = Operation::kSum;
  std::uint32_t divisor = 1;
  std::uint64_t count = 0;
  std::span<const std::byte* const> inputs;
  std::span<const std::byte* const> partials;
  std::byte* result = nullptr;
};
void fold(const Fold& what);

// The result of elements [first, first + count) of a reduction, that the tree has: `inputs[rank]`
// is the whole contribution of each rank.
std::vector<std::byte> fold_tree(const Tree& tree, const protocol::Shape& shape,
                                 std::span<const std::byte* const> inputs, std::uint64_t first,
                                 std::uint64_t count);

}  // namespace tally::sim::trees
