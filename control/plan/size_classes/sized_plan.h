// The plan for any network, with a size class for each range of sizes in which another packing of
// trees is the fastest: stars for small operations, and trees of more levels for larger ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/packing/packed_planner.h"
#include "control/plan/size_classes/fastest_by_size.h"

namespace tally::plan {

struct SizeOptions {
  // Of the trees for large operations. Its chunk is that of all size classes, of which none has
  // more than packing.max_trees.
  PackingOptions packing;
  std::size_t all_trees = kServedTrees;  // at most, of all size classes together
  double hop_seconds = FillModel{}.hop_seconds;
  // The boundaries of an operation's parts lie on multiples of 16 KiB (of 4-byte elements). So an
  // operation is divided over trees of several levels only if each tree gets so many bytes, as a
  // mean.
  std::uint64_t least_part = 64 << 10;
};

// A packing that was compared.
struct SizeCandidate {
  std::uint32_t levels = 0;  // of its highest tree
  std::size_t trees = 0;
  PackingTime time;
};

struct SizeReport {
  std::vector<SizeCandidate> candidates;  // by rising number of levels
  std::vector<SizeRange> ranges;          // of the size classes; `packing` is a candidate
};

// Compares the best stars, the best few trees of two levels, a medium number of trees, and the best
// trees of max_height levels, each as plan_packed() makes them. Few trees (at most 16) are for
// operations that are too small for least_part bytes at many trees. A medium number (at most 48)
// fills sooner, and is compared for up to kFewMachines. Every class of the result is divided. A
// packing that is the fastest for no size has no class, so a network of full bisection has one
// class of stars.
//
// The result has passed validate(). Its certificate is that of the last class, and its lower bound
// the best of those of the packings. The same arguments give the same plan. `report` may be null.
// Errors: as those of plan_packed().
Result<Plan> plan_by_size(const Network& network, std::span<const VertexId> workers,
                          const SizeOptions& options, SizeReport* report = nullptr);

}  // namespace tally::plan
