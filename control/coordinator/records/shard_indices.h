// Which of a node's shards serves which of its trees.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/partition/partition.h"
#include "dataplane/protocol/job/vertex.h"

namespace tally::control {

// Returns the shard index of each of the node's vertices, which are by ascending tree. The i-th is
// at shard index i mod `shards`. The root of a result tree is an exception: it is where the root of
// its sums is, because one shard sums and hands the results down.
std::vector<std::uint32_t> shard_indices(const std::vector<protocol::Vertex>& vertices,
                                         const protocol::Partition& plan, std::uint32_t shards);

}  // namespace tally::control
