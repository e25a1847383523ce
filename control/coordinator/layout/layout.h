// Where the trees of a job are: the shards and nodes of their vertices, and the parent of each. The
// layout follows a plan that an operator has set, or the closed form for stars. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/coordinator/records/store.h"
#include "control/plan/model/plan.h"

namespace tally::control {

// One star at every shard of each member, weighted by node_shares(). Operations of at least
// split_bytes are divided. Precondition: there are members, and lost NICs are marked
// (without_lost_rails()).
Layout star_layout(const Members& members, std::uint32_t ranks, std::uint64_t split_bytes);

// A plan of machines: one domain of a plan that has passed validate().
struct MachinePlan {
  plan::Plan file;
  std::size_t domain = 0;

  const plan::Domain& of() const { return file.domains[domain]; }
};

// Whether the members can serve the plan. They can when any cluster could (plan::check_served()),
// and when each machine that roots a tree or sums in one is a member by name. Another node may
// replace a drained machine (substitutes.h). An error names what is missing. members also has those
// that the plan names and that have left, marked as drained.
Outcome check_layout(const MachinePlan& plan, const Members& members);

// Whether the layout depends on which rank is on which machine. That of stars does not.
bool asks_for_hosts(const MachinePlan& plan);

// The ranks of each worker of the domain, in order. hosts, by rank: a rank belongs to the worker
// whose member has that host or that name. When this mapping does not give each rank one worker and
// each worker a rank, rank r belongs to the r-th worker; returns an error when the counts of ranks
// and workers differ.
Result<std::vector<std::vector<std::uint16_t>>> ranks_of_workers(
    const MachinePlan& plan, const Members& members, const std::vector<std::string>& hosts);

// Lays out the plan. Each tree becomes one tree at every shard of its root's node (fewer, when
// there would be more than kMaxTrees), and these trees divide its weight. Operations below
// split_bytes are not divided; each goes to one tree. Those that the plan knows (its tensors) go so
// that trees carry the shares of their weights; all others follow the sequence of the cut.
// Substitutes change neither that nor the order in which a vertex adds its children. Precondition:
// that of check_layout(), and `ranks` from ranks_of_workers().
Layout lay_out(const MachinePlan& plan, const Members& members,
               const std::vector<std::vector<std::uint16_t>>& ranks, std::uint64_t split_bytes);

}  // namespace tally::control
