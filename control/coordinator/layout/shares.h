// How much of a job each node carries.
#pragma once

#include <cstdint>
#include <vector>

#include "control/coordinator/records/store.h"
#include "control/plan/model/network.h"

namespace tally::control {

// Bytes per second of each member, in order. An unknown speed counts as the mean of the known ones,
// or as 1 when none is known.
std::vector<double> member_speeds(const std::vector<Member>& members);

// The members in the planner's form, in order.
std::vector<plan::Vertex> machines_of(const std::vector<Member>& members);

// When a machine with workers has lost a rail, its workers reach no node over that rail. So that
// rail counts as lost at all members. For drained members no rail counts as lost: they have no
// trees, and the cut that other nodes keep for them is that of all their NICs.
Members without_lost_rails(Members members);

// Each member's share, in order, in units of protocol::kWeightUnit; the sum is kWeightUnit. A
// member with share 0 should be left out. With full bisection, and workers on all machines with
// that role, no other division is faster (BytePS's closed form, extended to uneven NICs). An
// unknown speed counts as the mean of the known ones. Precondition: there are members.
std::vector<std::uint32_t> node_shares(const std::vector<Member>& members);

// Bytes of operations per second that the NICs carry with these shares, when that many ranks run
// evenly on the machines with role worker. 0 when a speed is unknown.
std::uint64_t rate_of(const std::vector<Member>& members, const std::vector<std::uint32_t>& shares,
                      std::uint32_t ranks);

// How many trees each member roots: one for each of its shards, but at most kMaxTrees in all (then
// one bound limits every member), and at most as many as its share has units.
std::vector<std::uint32_t> tree_counts(const std::vector<Member>& members,
                                       const std::vector<std::uint32_t>& shares);

}  // namespace tally::control
