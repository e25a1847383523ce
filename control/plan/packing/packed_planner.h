// The plan for any network: trees with helpers, whose shares take nearly as little time as any plan
// can, and the proof of how near.
//
// A network of full bisection has a closed form (star_planner.h). Otherwise the trees come from
// column generation (generation.h). In the spirit of "Near-optimal topology-adaptive parameter
// synchronization" (INFOCOM '21), which packs trees of workers; helpers and switches are new here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/served_limits.h"
#include "control/plan/packing/trees/directed_pricing.h"

namespace tally::plan {

inline constexpr std::size_t kMaxPackedMachines = 2048;
// With more machines, the choice of helpers one by one takes long. Then plans that may have fewer
// trees than the best shares need are far from the best.
inline constexpr std::size_t kFewMachines = 100;

enum class Solver { kLinearProgram, kWeights };

struct PackingOptions {
  std::uint64_t chunk = 256 << 10;  // bytes
  std::uint32_t window = 0;
  std::uint64_t epoch = 1;
  // Of a network that differs by direction; on others results always go back the same way.
  WayDown way_down = WayDown::kSameWay;
  std::uint32_t max_height = kServedHeight;
  // At least 1. With fewer than the best shares need, a plan for up to kFewMachines takes up to
  // seconds longer to make.
  std::size_t max_trees = kServedTrees;
  double gap = 1e-3;          // at which the search for faster plans ends, relative
  double level_slack = 0.02;  // by how much a plan may be slower if it has fewer levels, relative
  bool use_closed_form = true;
  // A build without Clp uses weights. They come near to the optimum and do not reach it.
  Solver solver = Solver::kLinearProgram;
};

// What the steps of planning reached, in seconds per byte.
struct PackingReport {
  // With trees of any height, and any way down. Where the planner packs for the slower directions
  // (same_way.h), results go back the same way.
  double any_tree = 0;
  double served = 0;       // with at most max_height levels, and the way down of the options
  double plan = 0;         // with at most max_trees trees, few levels, and rounded weights
  double lower_bound = 0;  // proved by the certificate
  bool is_exact = true;    // the least price of trees was always found
};

// Returns a plan with one domain "all" of these workers, which has passed validate(). Its method is
// "star" (closed form), "tpp-cg" (linear programs) or "tpp-mwu" (multiplicative weights). The
// certificate's lower bound has a dual. `report` may be null.
//
// The same arguments give the same plan. Errors: what validate() says of the network; no worker is
// given; a given machine is no worker of the network; there are too many machines; no tree joins
// all workers.
Result<Plan> plan_packed(const Network& network, std::span<const VertexId> workers,
                         const PackingOptions& options, PackingReport* report = nullptr);

}  // namespace tally::plan
