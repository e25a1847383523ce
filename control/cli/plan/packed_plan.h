// tallyctl plan make --network: packed trees for any network, and what they are worth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/served_limits.h"

namespace tally::control {

struct NetworkPlanOptions {
  std::uint64_t chunk = 256 << 10;  // bytes
  std::uint64_t epoch = 1;
  // The latency of a hop, by which size classes are chosen.
  double hop_seconds = 5e-6;
  bool one_class = false;                      // the trees for large operations carry all sizes
  bool rs_ag = false;                          // for reduce-scatters and all-gathers
  bool any_way = false;                        // results may go another way than the sums came
  std::size_t max_trees = plan::kServedTrees;  // of each size class; not with rs_ag
};

// Reads the file and plans for all its workers together. Errors name the file and the place in it,
// and what to change.
Result<plan::Plan> plan_for_network(const std::string& path, const NetworkPlanOptions& options);

// How good the plan is: the numbers of machines and trees, the size classes, tau and the lower
// bound. For people: the same in words. Precondition: a plan of plan_for_network().
nlohmann::json describe_packed(const plan::Plan& plan);
std::string render_packed(const nlohmann::json& described);

}  // namespace tally::control
