// For tests: members in racks, and the trees that a planner would make for four of them.
#pragma once

#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {

// A node of a machine with workers, whose host has its name.
inline Member racked(const char* name, const char* rack) {
  Member made = member(name, 2, 1'000'000'000, Role::kWorker);
  made.rack = {rack, 1'000'000'000, 1'000'000'000};
  return made;
}

// Workers "a" and "b" of one rack, "c" and "d" of another. "a" and "c" sum for their racks; "a" is
// the root.
inline plan::Plan trees_of_two_racks() {
  auto list = plan::equal_machines(4, 0, 1e9);
  const char* const names[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = names[i];
  plan::Plan made;
  made.epoch = 0;
  made.method = "by hand";
  made.network = plan::star_network(list);
  plan::Domain domain;
  domain.name = "all";
  domain.workers = {0, 1, 2, 3};
  domain.classes = {{{}, 65536, 0, {{65536, {-1, 0, 0, 2}, {}}}}};
  made.domains = {domain};
  return made;
}

}  // namespace tally::control
