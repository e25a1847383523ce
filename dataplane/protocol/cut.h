// How an operation is cut into parts, and which tree carries each part. A plan has trees, and says
// by classes of size which of them carry an operation, and how much each; where a tree is rooted is
// none of its business.
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

// Weights of the trees, in units of 1/65536; those of a class sum to kWeightUnit.
inline constexpr std::uint32_t kWeightUnit = 65536;
inline constexpr std::uint32_t kMaxTrees = 256;
inline constexpr std::size_t kMaxClasses = 64;
inline constexpr std::size_t kMaxHomes = 16384;
inline constexpr std::uint32_t kNoTree = UINT32_MAX;
inline constexpr std::uint64_t kAnySize = UINT64_MAX;

// Operations of up to max_bytes that no smaller class takes.
struct SizeClass {
  std::uint64_t max_bytes = kAnySize;
  // Over all its trees, in proportion to their weights; else each operation goes whole to one of
  // them, and each tree gets as many as its weight says.
  bool divided = false;
  std::vector<std::uint32_t> trees;    // of the plan, rising
  std::vector<std::uint32_t> weights;  // by tree; positive

  bool operator==(const SizeClass&) const = default;
};

// An operation that the planner knew of: where it goes, if it goes whole. Better than a sequence
// that knows no sizes; only for who posts this tag with just so many bytes.
struct Home {
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tree = 0;

  bool operator==(const Home&) const = default;
};

struct Plan {
  std::uint32_t trees = 0;         // numbered from 0
  std::vector<SizeClass> classes;  // by rising max_bytes; the last is of any size
  std::vector<Home> homes{};       // by rising tag; of group 0

  bool operator==(const Plan&) const = default;
};

// Trees with these weights, of which those that are 0 carry nothing. Operations of split_bytes and
// more are divided, smaller ones go whole to one tree. Precondition: the weights sum to
// kWeightUnit, and there are 1 to kMaxTrees.
Plan weighted_plan(const std::vector<std::uint32_t>& weights, std::uint64_t split_bytes);

// The same, of equal weights. Precondition: 1 <= trees <= kMaxTrees.
Plan even_plan(std::uint32_t trees, std::uint64_t split_bytes);

// Whether it is as its members say: what a plan from outside must pass first.
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

// The class that takes the operation.
const SizeClass& class_of(const Plan& plan, const Operand& operand);

// The tree that owns part 0: it sees all ranks' notices. Within a class the same for all operations
// of a tag.
std::uint32_t home_tree(const Plan& plan, const Operand& operand);

// 1, or as many as its class has trees.
std::uint32_t part_count(const Plan& plan, const Operand& operand);

// The tree that carries this part, for less than what cut() takes. Precondition: as there.
std::uint32_t tree_of(const Plan& plan, const Operand& operand, std::uint32_t index);

// Precondition: index < part_count(). A part of a tree with little weight may be empty.
Part cut(const Plan& plan, const Operand& operand, std::uint32_t index);

}  // namespace tally::protocol
