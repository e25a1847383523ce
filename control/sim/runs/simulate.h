// Simulates one operation, and compares its time with the bound that follows from its loads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/model/load.h"
#include "control/sim/baselines/baseline.h"
#include "control/sim/core/fabric.h"
#include "control/sim/core/tiers.h"
#include "control/sim/runs/node_tree.h"

namespace tally::simulator {

// Who decides when a tile of a tree goes on. Graphs of transfers always go on at once.
enum class Rules : std::uint8_t {
  kIdeal,  // it goes on at once (tree_run.h)
  kNodes,  // as Tally's nodes decide (node_run.h)
};

struct SlowMachine {
  plan::VertexId machine = 0;
  double factor = 1;  // its NIC and its links are so many times slower
};

struct Failure {
  plan::VertexId machine = 0;
  double at = 0;              // seconds from the begin of the operation
  double repair_seconds = 0;  // from the failure to the begin of the operation's second try
};

struct Scenario {
  FabricOptions fabric;
  Rules rules = Rules::kIdeal;
  std::uint32_t tiles_in_flight = 0;  // kIdeal: of all trees together; 0: no bound
  NodeOptions nodes;                  // kNodes
  double straggler_seconds = 0;       // mean delay of a worker's gradient
  std::uint64_t seed = 1;
  std::vector<SlowMachine> slow;
  std::optional<Failure> failure;
};

struct Simulated {
  double seconds = 0;  // from the begin until all workers have the whole result
  // tau x bytes of the network as it is given: the time of its busiest passage at full speed.
  double bound = 0;
  double last_ready = 0;          // when the slowest worker had its gradient
  std::vector<plan::Load> loads;  // bytes of the whole operation; as plan::ClassLoad::loads
  std::vector<Tier> tiers;
  bool repaired = false;  // the failure came before the end
  std::uint64_t events = 0;
  std::size_t longest_queue = 0;  // chunks that waited at one passage

  double ratio() const { return bound > 0 ? seconds / bound : 1; }
};

// The bytes of each passage and the time of the busiest one follow from the work alone.
// O(events log waiting). Errors: kNodes with trees whose `down` differs from `up`; a failure of
// transfers, which have no repair, or one that no machine can repair. Precondition: the work has
// routes for all that it sends, as plan::validate() and make_baseline() check.
Result<Simulated> simulate(const plan::Network& network, std::span<const plan::VertexId> workers,
                           const Work& work, const Scenario& scenario);

}  // namespace tally::simulator
