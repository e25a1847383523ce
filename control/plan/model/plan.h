// A plan. For each set of workers that sum together, and for each size of operation, it has the
// trees that carry the operation, and their weights. These are plain values. plan_json.h has the
// file format, validate.h the conditions, and docs/planning.md the explanation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/plan/model/network.h"
#include "control/plan/model/sections.h"

namespace tally::plan {

// Weights are in units of 1/65536, like those of the cut (dataplane/partition/partition.h).
inline constexpr std::uint32_t kWeightUnit = 65536;
inline constexpr std::size_t kMaxTrees = 65536;  // of all classes of a plan together
inline constexpr std::size_t kMaxDomains = 4096;
inline constexpr std::size_t kMaxClasses = 64;                            // of a domain
inline constexpr std::size_t kMaxTensors = 16384;                         // of a domain
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 38;  // the sum of all fits

// The parents in one direction of a tree, by machine: an id, kIsRoot or kIsAbsent.
using Parents = std::vector<std::int32_t>;
inline constexpr std::int32_t kIsRoot = -1;
inline constexpr std::int32_t kIsAbsent = -2;

struct Tree {
  std::uint32_t weight = 0;
  Parents up;    // partial sums go from child to parent
  Parents down;  // the result goes from parent to child; empty: the way of `up`, reversed

  const Parents& way_down() const { return down.empty() ? up : down; }
  // Whether the results go another way than the sums came.
  bool has_other_way() const { return !down.empty() && down != up; }
};

// The trees of the operations of up to max_bytes bytes that no class with a smaller max_bytes
// takes.
struct SizeClass {
  std::optional<std::uint64_t> max_bytes;  // without a value the class takes any size
  std::uint64_t chunk = 0;                 // bytes that travel at a time
  std::uint32_t window = 0;                // chunks in flight; 0: the nodes choose
  std::vector<Tree> trees;
  // If true, each operation goes over all trees. If false, it goes whole to one tree. Without a
  // value, only a class without max_bytes is divided.
  std::optional<bool> divided{};
  // The trees are for reduce-scatters and all-gathers, and an operation uses one way of each. In
  // the class for any size each tree carries the next part of the elements, in the order of the
  // list, so that the part can be what the ranks at its root own. All classes of a plan have the
  // same value, and if it is true, those of a domain have the same trees. If it is false, the trees
  // are for all-reduces.
  bool rs_ag = false;

  bool is_divided() const { return divided.value_or(!max_bytes); }
  // Whether the results of a tree go another way than the sums came.
  bool has_other_way() const {
    return std::any_of(trees.begin(), trees.end(),
                       [](const Tree& tree) { return tree.has_other_way(); });
  }
};

// A price for each byte that crosses a passage. Passages without a price have the price 0. The unit
// does not count.
struct DualValue {
  Passage passage = Passage::kLink;
  VertexId from = 0;
  VertexId to = 0;  // of a link; of another passage, the machine again
  double value = 0;
};

// The planner's claim about the last class, in seconds per byte of operation. tau: the time of the
// plan. lower_bound: a time that no plan on this network can beat. dual: the prices that prove it
// (dual_bound.h); may be empty.
struct Certificate {
  double tau = 0;
  double lower_bound = 0;
  std::vector<DualValue> dual{};
};

// An operation that the workers will post: its tag and its size. Trees of tensors that travel whole
// are chosen by size (assign.h), and not by tag.
struct Tensor {
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
};

struct Domain {
  std::string name;
  std::vector<VertexId> workers;  // ascending
  std::vector<SizeClass> classes;
  std::optional<Certificate> certificate;
  std::vector<Tensor> tensors{};  // by rising tag; may be empty
};

struct Plan {
  std::uint64_t epoch = 1;
  std::string method;  // the planner, such as "star"
  Network network;
  std::vector<Domain> domains;
  std::optional<PipelineSection> pipeline{};
  std::optional<AsyncSection> async{};
};

}  // namespace tally::plan
