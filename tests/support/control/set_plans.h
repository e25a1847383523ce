// For tests: plans such as an operator would set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/coordinator/layout/layout.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/control/test_plans.h"

namespace tally::control {

// Two workers, "w0" and "w1", and helpers "a" and "b"; stars at the helpers, weighted three to one.
inline MachinePlan stars(std::uint64_t epoch = 5) {
  auto list = plan::equal_machines(2, 2, 1e9);
  const char* const names[] = {"w0", "w1", "a", "b"};
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = names[i];
  MachinePlan made;
  made.file.epoch = epoch;
  made.file.method = "by hand";
  made.file.network = plan::star_network(list);
  plan::Domain domain;
  domain.name = "all";
  domain.workers = {0, 1};
  domain.classes = {{{}, 65536, 0, {{49152, {2, 2, -1, -2}, {}}, {16384, {3, 3, -2, -1}, {}}}}};
  made.file.domains = {domain};
  return made;
}

// One tree: "b" is the root, with the children "a" and worker 1; worker 0 is the child of "a".
inline MachinePlan deep() {
  MachinePlan made = stars();
  made.file.domains[0].classes[0].trees = {{65536, {2, 3, 3, -1}, {}}};
  return made;
}

}  // namespace tally::control
