// Takes the switches out of a network: each pair of links into and out of a switch becomes a link
// that goes around it, such that no worker loses bandwidth (ForestColl, arXiv 2402.06787, section
// 5.2: edge splitting; the theorem is by Bang-Jensen, Frank and Jackson, 1995).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "control/plan/forestcoll/max_flow.h"

namespace tally::plan::forestcoll {

// A part of a link between workers: the switches that it passes, in order, and its capacity.
struct Route {
  std::vector<std::uint32_t> via;
  std::int64_t capacity = 0;
};

// Links between workers alone. The routes of a link have its capacity together.
class Overlay {
 public:
  explicit Overlay(std::size_t workers) : capacities(workers), routes_(workers * workers) {}

  Capacities capacities;

  std::vector<Route>& routes(std::size_t from, std::size_t to) {
    return routes_[from * capacities.vertices() + to];
  }

 private:
  std::vector<std::vector<Route>> routes_;
};

// Takes this much capacity off the routes. Precondition: they have it.
std::vector<Route> take(std::vector<Route>& routes, std::int64_t capacity);

// The workers are the first vertices. Preconditions: as much capacity leads into each switch as out
// of it; a source that sends `trees` to each of the N workers can send N * trees to any of them;
// the sum of all capacities is below 2^59. Then the same holds for the overlay. An error
// (kInternal) says that a precondition does not hold.
//
// It takes O(d^2 N) flows for a switch of d links each way.
Result<Overlay> split_switches(const Capacities& capacities, std::size_t workers,
                               std::int64_t trees);

}  // namespace tally::plan::forestcoll
