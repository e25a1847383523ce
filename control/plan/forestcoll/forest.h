// ForestColl: trees for an all-gather or a reduce-scatter alone, whose time no other schedule beats
// (Zhao et al., "ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network
// Fabrics", arXiv 2402.06787). Each of N workers begins or ends with 1/N of the bytes. Everything
// is computed in whole numbers, so the result is exact and the same on every machine.
//
// An all-reduce made of the two is up to twice as slow as trees that carry sums and results at
// once, and it has no use for helpers, which only forward here. It is for tests of planners, and
// for the simulator, which compares plans with it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "control/plan/forestcoll/bound.h"
#include "control/plan/forestcoll/splitting.h"
#include "control/plan/model/network.h"
#include "control/plan/model/plan.h"

namespace tally::plan::forestcoll {

inline constexpr std::size_t kMostWorkers = 256;
inline constexpr std::size_t kMostVertices = 512;

// Equal trees of one root, over workers alone.
struct Trees {
  VertexId root = 0;
  std::int64_t count = 0;
  Parents parents;  // by machine id of the network; helpers are absent
  // By machine id: the routes between the worker and its parent, in the direction of the bytes. Via
  // vertices of the network; their capacities, in trees, sum to `count`. Empty where there is no
  // parent.
  std::vector<std::vector<Route>> routes;
};

struct Forest {
  std::size_t workers = 0;
  double unit = 1;  // bytes per second
  // N times the time of the collective, per byte of all workers together and per unit: 1/x* of the
  // paper.
  Fraction least_time;
  std::int64_t trees_per_root = 0;  // k of the paper
  std::vector<Trees> trees;         // by root; each root has trees_per_root

  // Bytes per second that a tree carries of its root's share: x*/k.
  double tree_speed() const {
    return unit / (least_time.value() * static_cast<double>(trees_per_root));
  }
  // The time of the collective, in seconds per byte of all workers together.
  double seconds() const { return least_time.value() / (static_cast<double>(workers) * unit); }
};

// Capacities are rounded down to whole multiples of `unit` (bytes per second), and the result is
// exact for these. An error names the link, machine or switch and the remedy: a link below one unit
// or above 2^31 units; a machine whose own speed is below that of its links together, because only
// links count here; a switch or helper into which other units lead than out of it; a worker that
// another one does not reach; fewer than 2 or more than kMostWorkers workers, more than
// kMostVertices vertices. Preconditions: the network has passed validate(), unit > 0.
//
// It takes O(d^2 N) flows for a switch of d links and O(N^2) for each of up to N^2 batches: 16
// workers take well below a second.
Result<Forest> all_gather(const Network& network, double unit);

// The same trees for sums that go up to the roots. Where links are slower one way, they differ from
// those of all_gather().
Result<Forest> reduce_scatter(const Network& network, double unit);

}  // namespace tally::plan::forestcoll
