// Machines and racks that can change places in a network without any other change. A plan can be
// made even over such places without taking longer, because the mean of plans takes no longer than
// the slowest of them. So a planner solves for one place of each kind.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "control/plan/model/network.h"

namespace tally::plan {

// Machines that can change places: all workers of the domain or all others, of equal speeds, whose
// only links go to the same switch.
struct Group {
  std::vector<VertexId> machines;  // ascending
  bool is_worker = false;
  std::size_t rack = 0;
};

// The groups at one switch. A machine that has several links is a rack of its own.
struct Rack {
  std::vector<std::size_t> groups;  // in an order that racks of one set share
  std::optional<VertexId> hub;      // the switch
  std::size_t set = 0;
};

struct Symmetry {
  std::vector<Group> groups;
  std::vector<Rack> racks;
  std::vector<std::vector<std::size_t>> sets;  // racks that can change places
  std::vector<std::size_t> group_of;           // by machine
};

// Finds groups, and sets of racks with equal groups and equal links to the rest of the network.
// Routes must agree: when racks change places, so do the routes between their machines; otherwise
// every rack is a set of its own. Other symmetries are not looked for. O(groups squared).
Symmetry find_symmetry(Routes& routes, const std::vector<bool>& is_worker);

// Every machine by itself.
Symmetry no_symmetry(const std::vector<bool>& is_worker);

// Whether every link and NIC is as fast one way as the other, no machine's sums are limited, and
// each route back is the route there reversed. Then there is a best plan whose results go back the
// way that the sums came (planning.md). O(groups squared).
bool is_two_way(Routes& routes, const Symmetry& symmetry);

}  // namespace tally::plan
