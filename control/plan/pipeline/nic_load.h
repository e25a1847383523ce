// What a partition sends through the NICs of servers. The cost model counts each transfer and each
// sum of gradients alone, as if it had the link to itself. On a NIC they add up, so a NIC may be
// the real bottleneck. This is the check afterwards.
#pragma once

#include <cstddef>
#include <vector>

#include "control/plan/pipeline/partition.h"

namespace tally::plan::pipeline {

// Bytes of a microbatch, all transfers and sums together.
struct NicLoad {
  std::size_t server = 0;  // as Gpu::server
  double out = 0;
  double in = 0;
  // Of the NIC: the fastest bandwidth from a GPU of the server to one of another server.
  double speed = 0;

  double seconds() const { return (out > in ? out : in) / speed; }
};

// Returns the loads of all servers by ascending number; none when there is one server.
//
// A microbatch goes from a replica to one of the next stage, each with a probability in proportion
// to its speed. Its activations go there, and their gradient comes back. Gradients are summed by a
// ring over the replicas of a stage, in which those of a server are neighbours. So each server with
// replicas of a stage that others have, too, sends and receives 2 (r - 1) / r bytes for each byte
// of weights, once in r * accumulate microbatches.
std::vector<NicLoad> nic_loads(const Profile& profile, const Cluster& cluster,
                               const Options& options, const Partition& partition);

}  // namespace tally::plan::pipeline
