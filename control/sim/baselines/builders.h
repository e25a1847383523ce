// The functions that make the baselines. baseline.h has their names and their precondition.
#pragma once

#include "control/sim/baselines/baseline.h"

namespace tally::simulator {

// Ring all-reduce: reduce-scatter, then all-gather (Patarasuk and Yuan, 2009). Each of the n
// segments goes around the ring almost twice. 2 (n - 1) transfers for each chunk.
Result<Work> ring(const Question& question);

// Recursive halving and doubling (Rabenseifner 2004). With n workers that are no power of two, the
// workers above the largest one send all bytes to a partner first and get the result from it.
Result<Work> halving_doubling(const Question& question);

// The two trees of NCCL 2.4: in-order binary trees, of which the second is the first one mirrored
// (n even) or shifted (n odd). A worker with children in one tree has none in the other.
Result<Work> double_binary_tree(const Question& question);

// Reduce-scatter in rings of each rack, ring all-reduce over the racks, all-gather in the racks
// (BlueConnect, Cho et al. 2019). A worker begins each of the three when it has all chunks of the
// one before. The racks are those of the machines, or else the switches that they are joined to.
// Error: the racks differ in size.
Result<Work> hierarchical_ring(const Question& question);

// Reduce-scatter, then all-gather, each over the trees of ForestColl (Zhao et al., arXiv
// 2402.06787). Helpers only forward. A root begins the all-gather when it has all its sums. Errors:
// those of plan::forestcoll::all_gather(), and too many workers.
Result<Work> forestcoll(const Question& question);

// Parameter servers: stars.
Result<Work> single_server(const Question& question);
Result<Work> sharded_servers(const Question& question);  // error: no helpers
Result<Work> colocated_servers(const Question& question);

// BytePS (OSDI '20, section 4.1), with its shares for equal NICs.
Result<Work> byteps(const Question& question);
// The same with its placement (byteps_hash.h) of one tensor.
Result<Work> byteps_hash(const Question& question);

}  // namespace tally::simulator
