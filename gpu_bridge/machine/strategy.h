// How the GPUs of one machine sum before Tally and share the result after it, and what that costs.
//
// A strategy divides the GPUs into groups. For M bytes of gradient at each GPU:
//   1. Within each group NCCL reduces, so that each GPU has the group's sum of its share.
//   2. Each GPU copies its share to host memory.
//   3. The CPU sums over the groups. ("CPU-assisted aggregation")
//   4. The sum goes through a NIC to Tally, and the result comes back to the same memory.
//   5. Each GPU copies its share of the result from host memory.
//   6. Within each group NCCL gathers the shares, so that each GPU has the whole result.
// These are the steps of BytePS (Jiang et al., OSDI '20), sections 4.2.1 and 4.2.2. Steps overlap,
// as in BytePS's pipeline, so the resource (host.h) that is busy for longest decides the time:
//   time per byte = max over resources of (its load in bytes per byte of gradient) / speed.
//
// What links carry, per byte of gradient. In a group of l GPUs, GPU i has the share s_i; a group's
// shares sum to 1. The paper states the totals for equal shares; the terms for each hop are derived
// here from the ring algorithm of NCCL.
//   ring hop i -> j   (1 - s_i) + (1 - s_j). The reduction does not carry i's own share away
//                     from i, and gathering does not carry j's share to j. With equal shares
//                     2 (l-1)/l (4.2.1: (l-1)/l in step 1 and in step 6). With the share 1 at
//                     one root this is reduce and broadcast (4.2.2). Where a direct NVLink is
//                     every hop, two rings, one each way, have half of the bytes each.
//   GPU -> memory     s_i, and s_i back (4.2.1: M/l in steps 2 and 5)
//   memory -> NIC     the bytes whose host memory it is, out and back
//   sums at a CPU     k bytes of input for each byte there, if there are k > 1 groups
// So with l GPUs below each of k switches (4.2.1), a switch's link to the CPU carries 1 each way,
// and a GPU's link 2 (l-1)/l + 1/l = (2l-1)/l each way. A ring over all n = k l GPUs instead loads
// each GPU's link with 2 (n-1)/n + 1/n, and a switch's link with 2 (n-1)/n + 1/k.
#pragma once

#include <string>
#include <vector>

#include "gpu_bridge/machine/host.h"

namespace tally::host {

// Times that differ by less, relatively, are equal, and so are shares that differ by less. The rest
// is rounding.
inline constexpr double kEqual = 1e-9;

// The part of the bytes that a GPU moves between its group and host memory.
struct Share {
  VertexId gpu = kNone;
  VertexId memory = kNone;  // NUMA node
  VertexId nic = kNone;
  double weight = 0;  // above 0; the weights of a group sum to 1, but for rounding
};

// GPUs that reduce and gather by NCCL. Of all groups of a strategy, the shares with the same memory
// and NIC have the same sum.
struct Group {
  std::vector<VertexId> ring;  // each GPU sends to the next
  bool both_ways = false;      // half of the bytes go the other way round
  std::vector<Share> shares;   // by memory and NIC, in the same order in all groups
};

// A group without shares. A ring goes both ways if it has 3 GPUs or more and every hop is a direct
// NVLink. Over a switch one way is as good, because each GPU then sends and receives the same.
Group group_of(const Routes& routes, std::vector<VertexId> ring);

// Whether all GPUs have equal shares, as ncclReduceScatter and ncclAllGather divide bytes.
bool is_even(const Group& group);

// Per byte of gradient.
struct Cost {
  std::vector<double> loads;  // bytes, or bytes of input, by ResourceId
  double tau = 0;             // seconds
  ResourceId binds = 0;       // the first resource that decides tau
  std::size_t copies = 0;     // shares: each is a copy to host memory and one back
  double moved = 0;           // bytes over all links together
};

// Whether `a` is better than `b`: less time, else fewer copies, else fewer bytes over links.
bool is_better(const Cost& a, const Cost& b);

// Adds what the hops of the group's rings would carry if no GPU had a share: 2 in all.
void add_ring(const Routes& routes, const Group& group, std::vector<double>& loads);
// Adds what the share changes: hops of its GPU carry less, and copies more. Shares of the first
// group also add what moves between host memory and Tally, and what the CPU reads to sum `groups`
// groups.
void add_share(const Routes& routes, const Group& group, const Share& share, std::size_t groups,
               bool is_first, std::vector<double>& loads);

Cost cost_of(const Routes& routes, const std::vector<Group>& groups);

// In words: "gpu0 gpu1 (equal shares) | gpu2 gpu3 (gpu2 75%, gpu3 25%) | gpu4".
std::string describe(const Host& host, const std::vector<Group>& groups);

}  // namespace tally::host
