// Where the trees of a job are: at which shards of which nodes, and who is whose child. From a plan
// that somebody made, or by the closed form for stars. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/coordinator/store.h"
#include "control/plan/plan.h"

namespace tally::control {

// A star at every shard of each member, by node_shares(). Operations of split_bytes and more are
// divided. Precondition: there are members, and lost NICs are marked (without_lost_rails()).
Layout star_layout(const Members& members, std::uint32_t ranks, std::uint64_t split_bytes);

// A plan of machines: one domain of a plan that has passed validate().
struct MachinePlan {
  plan::Plan file;
  std::size_t domain = 0;

  const plan::Domain& of() const { return file.domains[domain]; }
};

// Whether nodes can serve it: what any cluster can (plan::check_served()), and its machines that
// root a tree or sum in one are members, by their names, or somebody can stand in for those that
// are drained (substitutes.h). An error names what is missing. `members`: those that have left and
// that the plan names, too, as if they were drained.
Outcome check_layout(const MachinePlan& plan, const Members& members);

// Whether ranks must be told apart by their machines: stars do not care where their ranks are.
bool asks_for_hosts(const MachinePlan& plan);

// By worker of the domain, in order: its ranks. `hosts`, by rank: a rank is at the worker whose
// member has that host, or that has it for a name. Where that does not give each rank one worker
// and each worker a rank, rank r is at the r-th worker; an error where there are not as many.
Result<std::vector<std::vector<std::uint16_t>>> ranks_of_workers(
    const MachinePlan& plan, const Members& members, const std::vector<std::string>& hosts);

// Each tree of the plan becomes one at every shard of its root's node (fewer, where there would be
// more than kMaxTrees); its shards share its weight. Operations below split_bytes go whole to one
// tree; those that the plan knows (its tensors) so that trees carry what their weights say, all
// others by the sequence of the cut. Substitutes change nothing of that, nor the order in which a
// vertex adds its children. Precondition: as check_layout(), and `ranks` from ranks_of_workers().
Layout lay_out(const MachinePlan& plan, const Members& members,
               const std::vector<std::vector<std::uint16_t>>& ranks, std::uint64_t split_bytes);

}  // namespace tally::control
