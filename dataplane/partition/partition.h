// How an operation is cut into parts, and which tree carries each part. A plan has trees and size
// classes. A size class names the trees that carry an operation of its sizes, and their weights.
// This file does not know where a tree has its root. The results of a tree go back the way its sums
// came, or over a tree of their own, its *result tree*.
//
// The cut is a pure function of (plan, group, tag, count, type). So ranks may announce in any order
// and from any number of processes, and still mean the same bytes. Clients and nodes share this
// code.
#pragma once

#include <cstdint>
#include <vector>

#include "base/element.h"

namespace tally::protocol {

// Cuts fall on multiples of this many elements. These are whole pages for every element type, and
// whole blocks of statistics.
inline constexpr std::uint64_t kCutElements = 4096;

// Weights of trees are in units of 1/65536. Those of a class sum to kWeightUnit.
inline constexpr std::uint32_t kWeightUnit = 65536;
inline constexpr std::uint32_t kMaxTrees = 256;
inline constexpr std::size_t kMaxClasses = 64;
inline constexpr std::size_t kMaxHomes = 16384;
inline constexpr std::uint32_t kNoTree = UINT32_MAX;
inline constexpr std::uint32_t kNoPart = UINT32_MAX;
inline constexpr std::uint64_t kAnySize = UINT64_MAX;

// A class takes operations of up to max_bytes bytes that no class with a smaller max_bytes takes.
struct SizeClass {
  std::uint64_t max_bytes = kAnySize;
  // If true, each operation goes over all trees of the class, in proportion to their weights. If
  // false, each operation goes whole to one tree, and each tree gets a number of operations in
  // proportion to its weight.
  bool divided = false;
  std::vector<std::uint32_t> trees;    // numbers of the plan's trees, rising
  std::vector<std::uint32_t> weights;  // in the order of `trees`; positive
  // Of a divided class: the elements are cut in the order of the trees, the same for all tags. So a
  // tree can carry those that the ranks at its root own (wire::Kind::kReduceScatter). Otherwise the
  // cut begins with the home tree of the tag.
  bool in_order = false;

  bool operator==(const SizeClass&) const = default;
};

// The tree of an operation that the planner knows. It applies when the operation goes whole, and
// has exactly this tag and this many bytes. The planner chooses trees by size. Other operations get
// their tree from a sequence over the tags, which knows no sizes.
struct Home {
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tree = 0;

  bool operator==(const Home&) const = default;
};

struct Partition {
  std::uint32_t trees = 0;         // numbered from 0
  std::vector<SizeClass> classes;  // by rising max_bytes; the last class takes any size
  std::vector<Home> homes{};       // by rising tag; only for group 0
  // By tree: its result tree; kNoTree: it carries its results itself. A result tree carries nothing
  // else. Empty: every tree carries its own results.
  std::vector<std::uint32_t> result_trees{};

  bool operator==(const Partition&) const = default;
  std::uint32_t result_tree(std::uint32_t tree) const {
    return tree < result_trees.size() ? result_trees[tree] : kNoTree;
  }
  // Returns the tree whose results this one carries; kNoTree when it is no result tree.
  std::uint32_t sum_tree(std::uint32_t tree) const;
};

// Returns a plan of trees with these weights. A tree of weight 0 carries nothing. Operations of
// split_bytes bytes and more are divided. Smaller operations go whole to one tree. Precondition:
// the weights sum to kWeightUnit, and there are 1 to kMaxTrees.
Partition weighted_partition(const std::vector<std::uint32_t>& weights, std::uint64_t split_bytes);

// Returns the same with equal weights. Precondition: 1 <= trees <= kMaxTrees.
Partition even_partition(std::uint32_t trees, std::uint64_t split_bytes);

// Returns whether the plan is as the comments of its members say. A plan from outside must pass
// this check before use.
bool valid(const Partition& plan);

struct Operand {
  std::uint16_t group = 0;
  std::uint32_t tag = 0;
  ElementType type = ElementType::kF32;
  std::uint64_t count = 0;  // elements
};

// The elements [first, first + count) of the operation, which `tree` carries. The parts of the sums
// come first. A *result part* for each of their trees that has a result tree follows, in the same
// order, with the same elements.
struct Part {
  std::uint32_t tree = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Returns the class that takes the operation.
const SizeClass& class_of(const Partition& plan, const Operand& operand);

// Returns the tree that carries part 0. That tree receives the notices of all ranks. Within a class
// it is the same for all operations of a tag, except those that plan.homes lists.
std::uint32_t home_tree(const Partition& plan, const Operand& operand);

// Returns 1, or the number of trees of the operation's class; and their result parts.
std::uint32_t part_count(const Partition& plan, const Operand& operand);

// Returns the tree that carries part `index`. It costs less than cut(). Precondition: index <
// part_count().
std::uint32_t tree_of(const Partition& plan, const Operand& operand, std::uint32_t index);

// Returns part `index` of the operation. Precondition: index < part_count(). The part of a tree
// with little weight may be empty.
Part cut(const Partition& plan, const Operand& operand, std::uint32_t index);

// Returns the result part of the sums of part `index`, or the part with the sums of its results;
// kNoPart when its tree carries both. Precondition: index < part_count().
std::uint32_t other_part(const Partition& plan, const Operand& operand, std::uint32_t index);

}  // namespace tally::protocol
