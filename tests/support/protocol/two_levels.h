// The job of the tests of trees: a vertex of height 2, over its own ranks and one child node.
#pragma once

#include <cstdint>

#include "dataplane/protocol/job/job_spec.h"

namespace tally::protocol {

// Ranks 0 and 1 are children, and ranks 2 and 3 are below the child node. Below a parent the job
// has rank 4 too, which is elsewhere in the tree.
inline JobSpec two_levels(bool root) {
  JobSpec spec{.epoch = 7, .ranks = std::uint16_t(root ? 4 : 5), .credit = 4};
  spec.plan = even_partition(1, 1 << 30);
  Vertex vertex;
  vertex.height = 2;
  vertex.ranks = {0, 1};
  vertex.child_nodes = {ChildNode{0, {2, 3}}};
  if (!root) vertex.parent = 0;
  spec.vertices = {vertex};
  spec.child_nodes = 1;
  spec.parents = root ? 0 : 1;
  spec.buffers = BufferLayout{.bytes = 32 << 10, .up = 2, .down = 2, .classes = 2};
  return spec;
}

}  // namespace tally::protocol
