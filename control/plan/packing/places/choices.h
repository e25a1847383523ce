// Which machines that are no workers a tree has. Machines of a group, and racks of a set, count as
// alike, so a choice is a number of machines for each group.
#pragma once

#include <functional>
#include <vector>

#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {

using Counts = std::vector<std::size_t>;  // by group: how many of its machines are in the tree

// Returns the counts with all workers and no other machine.
Counts workers_only(const Symmetry& symmetry);

// The number of choices that differ: of two choices that alike racks exchange, one counts.
double number_of_choices(const Symmetry& symmetry);

// Calls visit(counts) for each of them.
void for_each_choice(const Symmetry& symmetry, const std::function<void(const Counts&)>& visit);

}  // namespace tally::plan
