// A plan: for each set of workers that sum together, and for each size of operation, the trees that
// carry it and their weights. Plain values; plan_json.h has the file, validate.h says what a plan
// must be, docs/planning.md explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/plan/network.h"

namespace tally::plan {

// Weights are in units of 1/65536, as those of the cut (dataplane/protocol/cut.h).
inline constexpr std::uint32_t kWeightUnit = 65536;
inline constexpr std::size_t kMaxTrees = 65536;  // of all classes together
inline constexpr std::size_t kMaxDomains = 4096;
inline constexpr std::size_t kMaxClasses = 64;                            // of a domain
inline constexpr std::size_t kMaxTensors = 16384;                         // of a domain
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 38;  // so that all add up

// Parents of one direction by machine: an id, or one of these.
using Parents = std::vector<std::int32_t>;
inline constexpr std::int32_t kIsRoot = -1;
inline constexpr std::int32_t kIsAbsent = -2;

struct Tree {
  std::uint32_t weight = 0;
  Parents up;    // partial sums go from child to parent
  Parents down;  // the result goes from parent to child; empty: the tree of `up`, reversed

  const Parents& way_down() const { return down.empty() ? up : down; }
};

// The trees of the operations of up to max_bytes that no smaller class takes.
struct SizeClass {
  std::optional<std::uint64_t> max_bytes;  // none: of any size
  std::uint64_t chunk = 0;                 // bytes that travel at a time
  std::uint32_t window = 0;                // chunks in flight; 0: the nodes choose
  std::vector<Tree> trees;
  // Each operation over all trees; else it goes whole to one. None: so are those of any size.
  std::optional<bool> divided{};

  bool is_divided() const { return divided.value_or(!max_bytes); }
};

// What the planner claims of the last class, in seconds per byte of operation: what the plan takes,
// and what no plan on this network can beat.
struct Certificate {
  double tau = 0;
  double lower_bound = 0;
};

// An operation that the workers will post: its tag and its size. Those that travel whole are given
// out by size (assign.h) rather than by tag.
struct Tensor {
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
};

struct Domain {
  std::string name;
  std::vector<VertexId> workers;  // ascending
  std::vector<SizeClass> classes;
  std::optional<Certificate> certificate;
  std::vector<Tensor> tensors{};  // by rising tag; may be none
};

struct Plan {
  std::uint64_t epoch = 1;
  std::string method;  // how it was made: "star"
  std::string objective = "allreduce";
  Network network;
  std::vector<Domain> domains;
};

}  // namespace tally::plan
