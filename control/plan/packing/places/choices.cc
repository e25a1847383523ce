#include "control/plan/packing/places/choices.h"

#include <algorithm>

namespace tally::plan {
namespace {

// The ways to choose machines in one rack.
double rack_choices(const Symmetry& symmetry, const Rack& rack) {
  double choices = 1;
  for (const std::size_t group : rack.groups) {
    const Group& one = symmetry.groups[group];
    if (!one.is_worker) choices *= static_cast<double>(one.machines.size() + 1);
  }
  return choices;
}

// Counts up through the choices of one rack after another. Of the racks of a set, each has the
// choice of the one before it or a later one.
class Walk {
 public:
  Walk(const Symmetry& symmetry, const std::function<void(const Counts&)>& visit)
      : symmetry_(symmetry), visit_(visit), counts_(workers_only(symmetry)) {}

  void from(std::size_t set, std::size_t member, std::size_t first_choice) {
    if (set == symmetry_.sets.size()) {
      visit_(counts_);
      return;
    }
    const std::vector<std::size_t>& racks = symmetry_.sets[set];
    const Rack& rack = symmetry_.racks[racks[member]];
    const auto choices = static_cast<std::size_t>(rack_choices(symmetry_, rack));
    const bool is_last = member + 1 == racks.size();
    for (std::size_t choice = first_choice; choice < choices; ++choice) {
      take(rack, choice);
      from(is_last ? set + 1 : set, is_last ? 0 : member + 1, is_last ? 0 : choice);
    }
  }

 private:
  void take(const Rack& rack, std::size_t choice) {
    for (const std::size_t group : rack.groups) {
      const Group& one = symmetry_.groups[group];
      if (one.is_worker) continue;
      counts_[group] = choice % (one.machines.size() + 1);
      choice /= one.machines.size() + 1;
    }
  }

  const Symmetry& symmetry_;
  const std::function<void(const Counts&)>& visit_;
  Counts counts_;
};

}  // namespace

Counts workers_only(const Symmetry& symmetry) {
  Counts counts;
  for (const Group& group : symmetry.groups) {
    counts.push_back(group.is_worker ? group.machines.size() : 0);
  }
  return counts;
}

double number_of_choices(const Symmetry& symmetry) {
  double choices = 1;
  for (const auto& set : symmetry.sets) {
    const double of_rack = rack_choices(symmetry, symmetry.racks[set.front()]);
    for (std::size_t i = 0; i < set.size(); ++i) {
      choices *= (of_rack + static_cast<double>(i)) / static_cast<double>(i + 1);
    }
  }
  return choices;
}

void for_each_choice(const Symmetry& symmetry, const std::function<void(const Counts&)>& visit) {
  Walk(symmetry, visit).from(0, 0, 0);
}

}  // namespace tally::plan
