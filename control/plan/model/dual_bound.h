// Checks the proof that a certificate has for its lower bound.
//
// A tree carries a sum up to its root and the result down. Its price is the sum of the prices of
// the passages that it crosses, each as often as it crosses it. Let P be the least price of any
// tree of all workers and any other machines, up and down. A plan of time tau puts at most capacity
// x tau bytes on each passage, so P <= tau x (sum of capacity x price). So for prices of at least 0
//
//     tau >= P / (sum of capacity x price).
//
// This holds for every plan whose edges take the routes of `Routes`. It is linear programming
// duality for fractional packings of trees (Nash-Williams 1961 and Tutte 1961 have the case without
// helpers and switches).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/plan/model/network.h"
#include "control/plan/model/passages.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

inline constexpr std::size_t kMaxDualMachines = 2048;

// Returns the price of each passage, by its index. Errors: a value below 0 or not finite, an entry
// that names no passage or one twice. `place` is the name of `dual` in messages.
Result<std::vector<double>> prices_by_passage(const Passages& passages,
                                              std::span<const DualValue> dual,
                                              const std::string& place = "dual");

// Returns the bound in seconds per byte. P is computed anew, and is exact if
// - prices are the same both ways, and few machines but the workers differ (least_tree.h), or
// - few of these machines and few machines at all are in the network.
// Otherwise a lower P takes its place, and the bound is lower.
//
// Errors: those of prices_by_passage(), no price at all, too many machines, or workers that no tree
// joins. `place` is the name of `dual` in messages.
// Precondition: the network has passed validate(), and the workers are machines of it. O(machines
// squared) and less than a second more.
Result<double> dual_bound(Routes& routes, std::span<const VertexId> workers,
                          std::span<const DualValue> dual, const std::string& place = "dual");

}  // namespace tally::plan
