// How an operation is cut into parts, and which tree carries each part. On one node a tree is a
// star rooted at one shard, so "tree" here is a shard of the plan.
//
// The cut is a pure function of (plan, group, tag, count, type): ranks may announce in any order
// and from any number of processes, and still mean the same bytes. Clients and nodes share this
// code.
#pragma once

#include <cstdint>
#include <vector>

#include "base/element.h"

namespace tally::protocol {

// Cuts fall on multiples of this many elements, which are whole pages for every element type and
// whole blocks of statistics.
inline constexpr std::uint64_t kCutElements = 4096;

// Weights of the trees, in units of 1/65536; they sum to kWeightUnit.
inline constexpr std::uint32_t kWeightUnit = 65536;
inline constexpr std::uint32_t kMaxTrees = 256;
inline constexpr std::uint32_t kNoTree = UINT32_MAX;

struct Plan {
  std::vector<std::uint32_t> weights;
  // Operations of this many bytes and more are divided over all trees; smaller ones go whole to
  // their home tree.
  std::uint64_t split_bytes = 0;
};

// Equal weights for `trees` shards. Precondition: 1 <= trees <= kMaxTrees.
Plan even_plan(std::uint32_t trees, std::uint64_t split_bytes);

// Weights present, positive in sum, and adding up: what a plan from outside must pass first.
bool valid(const Plan& plan);

struct Operand {
  std::uint16_t group = 0;
  std::uint32_t tag = 0;
  ElementType type = ElementType::kF32;
  std::uint64_t count = 0;  // elements
};

// Elements [first, first + count) of the operation, carried by `tree`.
struct Part {
  std::uint32_t tree = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// The tree that owns part 0 of every operation with this tag: it sees all ranks' notices.
std::uint32_t home_tree(const Plan& plan, std::uint16_t group, std::uint32_t tag);

// 1, or as many as there are trees.
std::uint32_t part_count(const Plan& plan, const Operand& operand);

// Precondition: index < part_count(). A part of a tree with little weight may be empty.
Part cut(const Plan& plan, const Operand& operand, std::uint32_t index);

}  // namespace tally::protocol
