// The systems and algorithms with which plans are compared. Each makes the operation of one plan
// domain: as trees (core/tree_set.h), or as a graph of transfers (core/transfers.h).
//
// A new baseline needs a function and a line in the table of baseline.cc. If it sums up trees and
// sends results down other trees, it returns a TreeSet whose trees have `up` and `down`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "control/plan/model/network.h"
#include "control/sim/core/transfers.h"
#include "control/sim/core/tree_set.h"

namespace tally::simulator {

struct Question {
  const plan::Network& network;
  std::vector<plan::VertexId> workers;  // ascending; at least one
  std::uint64_t bytes = 0;              // of the operation, above 0
  std::uint64_t chunk = 0;              // bytes of the largest chunk, 1 to kMaxChunk

  std::vector<plan::VertexId> helpers() const;
};

using Work = std::variant<TreeSet, Transfers>;

struct Baseline {
  std::string_view name;
  std::string_view help;
  Result<Work> (*make)(const Question&);
};

std::span<const Baseline> baselines();

// "ring, halving-doubling, ...".
std::string baseline_names();

// Makes the work of the baseline. An error names the baseline and says what it lacks: helpers,
// racks of equal size, or a route between two machines; or that no baseline has this name.
Result<Work> make_baseline(std::string_view name, const Question& question);

}  // namespace tally::simulator
