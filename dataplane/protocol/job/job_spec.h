// What control passes to a shard when it adds a job.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/partition/partition.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {

struct JobSpec {
  std::uint32_t epoch = 1;
  std::uint16_t ranks = 1;
  std::uint32_t weight = 1;
  bool eager_results = true;   // results of small operations may complete on arrival
  OwnerId owner = kNoOwner;    // the owner has one share of the shard for all its jobs
  std::uint32_t credit = 256;  // operations that a rank may have outstanding here, in all trees
  // The trees that carry the job. When the plan has no classes, the configuration's plan applies;
  // then the job has a star here unless it lists vertices.
  Partition plan{};
  // This shard's vertices, at most one of each tree. With a plan of its own and no vertices, the
  // job has no operations here.
  std::vector<Vertex> vertices{};
  std::uint16_t child_nodes = 0;  // number of child nodes of the vertices
  std::uint16_t parents = 0;
  BufferLayout buffers{};  // the same at all vertices of the job
  // By number of the child node or parent: its node's number in the job, from 1, which verdicts
  // name. Empty when the numbers are unknown.
  std::vector<std::uint32_t> child_node_numbers{};
  std::vector<std::uint32_t> parent_node_numbers{};
};

}  // namespace tally::protocol
