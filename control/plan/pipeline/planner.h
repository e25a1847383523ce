// Plans a pipeline: the order of the GPUs, the stages with their replicas, and the blocks that each
// stage recomputes. It joins gpu_order.h, partition.h or iteration.h, and recompute.h.
#pragma once

#include "control/plan/pipeline/partition.h"

namespace tally::plan::pipeline {

struct PipelinePlan {
  Partition partition;
  // A single stage of all GPUs, for comparison. Nothing when it does not fit the memories.
  std::optional<Partition> data_parallel;
  bool is_exhaustive = false;  // whether each order of the servers was tried
  std::size_t orders_tried = 0;
};

// Returns the best plan by options.objective. It tries as many orders of the servers as about 10^9
// steps allow, and at least one. Where these are too few for iterations, it takes the order with
// the best bottleneck. Errors: an argument that check() refuses; no division fits the memories; too
// many blocks and GPUs for iterations (iteration.h).
Result<PipelinePlan> plan_pipeline(const Profile& profile, const Cluster& cluster,
                                   const Options& options);

// Returns a profile of at most `most` blocks: the pair of neighbours with the least time together
// is merged until that holds. A merged block has the sums of its blocks, the output of the last one
// and the kept bytes of the first one. Preconditions: most > 0, and check() accepts the blocks.
Profile merge_blocks(const Profile& profile, std::size_t most);

}  // namespace tally::plan::pipeline
