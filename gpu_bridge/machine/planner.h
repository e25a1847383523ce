// Chooses how the GPUs of a machine sum before Tally: compares strategies, and takes the one with
// the least time per byte. Pure: the same machine gives the same plan.
//
// For each way to divide the GPUs into groups (rings.h), the shares that take the least time are
// the solution of a linear program (lp.h), because all loads are affine in the shares. The share of
// each GPU is divided over the places where its bytes can go: a NUMA node's memory and a NIC. Such
// shares need many copies. So whenever simpler shares take the same time, those with the fewest
// copies are chosen: equal shares, or one GPU of each group with all its bytes. Where a program is
// not solved, because the build has no Clp or Clp fails, equal shares stand in for those of the
// least time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_bridge/machine/host.h"
#include "gpu_bridge/machine/strategy.h"

namespace tally::host {

struct Strategy {
  std::string_view name;  // "CPU-assisted"; for people. Empty when it has none
  std::vector<Group> groups;
  Cost cost;
};

struct HostPlan {
  // The strategies that have a name, in a fixed order. Those that the machine does not have, such
  // as NVLink islands without NVLinks, are left out; so are best shares that were not found.
  std::vector<Strategy> named;
  Strategy chosen;
  std::size_t divisions = 0;  // ways to divide the GPUs that were compared
  bool is_every_way = false;  // the GPUs have no other ways
  std::size_t unsolved = 0;   // ways with equal shares in place of those of the least time

  // Whether every way was compared, and with the shares of the least time.
  bool every_division() const { return is_every_way && unsolved == 0; }
};

HostPlan plan_host(const Routes& routes);

}  // namespace tally::host
