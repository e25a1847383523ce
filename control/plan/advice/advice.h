// What would let an operation take less time on a network, and how much less: one more helper, and
// faster links, NICs or sums. Each amount is the time of a plan that the planner makes for the
// changed network. Nothing is extrapolated.
//
// Most upgrades need no plan, because a proof shows that they are of little use. The prices of the
// plan for the network as it is prove a lower bound for the faster network too (dual_bound.h): the
// capacity of each faster place counts with its new value, and the least price P stays.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/plan/advice/changes.h"
#include "control/plan/model/plan.h"
#include "control/plan/packing/packed_planner.h"

namespace tally::plan {

struct AdviceOptions {
  // Speeds of the one more helper; its role is kHelper. Without a value: those of the fastest
  // helper of the network, or else those of the fastest worker.
  std::optional<Vertex> helper;
  // How many times faster an upgrade may be; above 1.
  double most_factor = 2;
  // Upgrades that let an operation take less than this part less time are left out.
  double least_gain = 0.01;
  // Places of helpers, and upgrades, for which plans are made. Where the planner does not find the
  // least price of trees (PackingReport::is_exact), it is slow: then two of each, and upgrades only
  // with most_factor.
  std::size_t most_places = 8;
  // The times of plans with few levels would be up to 2% above what the network can do.
  PackingOptions packing{.level_slack = 0};
};

struct HelperAdvice {
  HelperPlace place;
  double tau = 0;  // seconds per byte with the helper
};

struct UpgradeAdvice {
  Upgrade upgrade;
  // The least of a few factors that saves nearly as much time as most_factor: at least 95% of it,
  // and the operation takes at most 1% longer.
  double factor = 1;
  double tau = 0;  // seconds per byte with places that are `factor` times as fast
};

struct Advice {
  Certificate now;  // of the plan that the planner makes for the network as it is
  Vertex helper;    // the one more helper
  // The least tau first.
  std::vector<HelperAdvice> helpers;
  std::vector<UpgradeAdvice> upgrades;
  std::size_t of_no_use = 0;  // upgrades that gain less than least_gain
  std::size_t not_tried = 0;  // places of helpers, and upgrades, beyond most_places
};

// Errors: those of plan_packed(). The same arguments give the same advice. Takes up to some 40
// times as long as plan_packed(). Where one worker is alone, nothing travels and there is no
// advice.
Result<Advice> advise(const Network& network, std::span<const VertexId> workers,
                      const AdviceOptions& options);

}  // namespace tally::plan
