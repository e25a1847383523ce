// How much of a job each node carries.
#pragma once

#include <cstdint>
#include <vector>

#include "control/coordinator/store.h"
#include "control/plan/network.h"

namespace tally::control {

// Bytes per second, in order; unknown speeds are the mean of the known ones, or 1 where none is.
std::vector<double> member_speeds(const std::vector<Member>& members);

// As the planner wants them, in order.
std::vector<plan::Vertex> machines_of(const std::vector<Member>& members);

// Where a machine with workers has lost a rail, they reach no node by it any more: it counts as
// lost at all members. At drained ones themselves none does: they have no trees, and the cut that
// others keep for them is that of all their NICs.
Members without_lost_rails(Members members);

// Of protocol::kWeightUnit, for each member in order; they add up to it. A member whose share is 0
// is better left out. For full bisection, and workers on all the machines whose role says so, no
// way of sharing is faster (after BytePS, for uneven NICs). Unknown speeds are the mean of the
// known ones. Precondition: there are members.
std::vector<std::uint32_t> node_shares(const std::vector<Member>& members);

// Bytes of operation per second that the NICs carry with these shares, for so many ranks that run,
// evenly, on the machines whose role says so. 0: a speed is not known.
std::uint64_t rate_of(const std::vector<Member>& members, const std::vector<std::uint32_t>& shares,
                      std::uint32_t ranks);

// For which each member makes its windows, where the job goes at `rate`. Where trees take the whole
// NIC of a helper, they cannot make up for what they have missed: the trees of machines with
// workers, whose NICs carry others' bytes too, leave them the first place there, and take what is
// left. In order.
std::vector<std::uint64_t> window_rates(const std::vector<Member>& members,
                                        const std::vector<std::uint32_t>& shares,
                                        std::uint32_t ranks, std::uint64_t rate);

// Whether a NIC that carries such a part of what it can is full, as window_rates() takes it, and
// what is left of `rate` for those who yield to it.
bool is_full(double busy);
std::uint64_t yielding(std::uint64_t rate);

// How many trees each member roots: one for each of its shards, but at most kMaxTrees in all (then
// each has fewer, down to the same bound), and not more than its share has units.
std::vector<std::uint32_t> tree_counts(const std::vector<Member>& members,
                                       const std::vector<std::uint32_t>& shares);

}  // namespace tally::control
