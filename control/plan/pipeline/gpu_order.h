// The order of GPUs along a pipeline. Stages have consecutive GPUs of it, so with unequal GPUs or
// links the order alone can change the time of a microbatch by a factor.
//
// The GPUs of a server stay together, the fastest first. If there are few enough orders of the
// servers, each is tried. Otherwise the search starts with the order in which a maximum spanning
// tree of the bandwidth between servers is walked, and exchanges two servers as long as that helps.
// The tree holds a path of the highest possible least bandwidth between any two servers.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "control/plan/pipeline/profile.h"

namespace tally::plan::pipeline {

// Returns the time of the best division for an order of GPUs, if it is less than `limit`;
// kUnlimited otherwise.
using TimeOfOrder = std::function<double(std::span<const std::size_t> order, double limit)>;

struct OrderSearch {
  // Indices in Cluster::gpus. Empty when no order has a division that fits.
  std::vector<std::size_t> order;
  double time = kUnlimited;
  bool is_exhaustive = false;  // whether each order of the servers was tried
  std::size_t tried = 0;
};

// Returns the number of orders that differ, or more than `most`.
std::size_t count_orders(const Cluster& cluster, std::size_t most);

// Returns the first best order. It calls `time_of` at most `most` times, and at least once. Orders
// that differ only by servers without a difference count once.
OrderSearch best_order(const Cluster& cluster, const TimeOfOrder& time_of, std::size_t most);

}  // namespace tally::plan::pipeline
