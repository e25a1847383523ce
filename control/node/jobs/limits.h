// The limits of a node for the jobs that it admits. Configuration sets most of them; the rest are
// the limits of its process.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tally::control {

// This credit covers all that a shard has in progress at a time, for operations of any size. It is
// below a power of two, as is 60, the credit of each of 256 ranks: RDMA devices round their queues
// up from one entry more.
inline constexpr std::uint32_t kLeastCredit = 28;

struct AdmissionLimits {
  bool open_jobs = true;  // the first rank may create a job that the configuration does not name
  std::uint32_t max_jobs = 64;
  std::uint32_t max_ranks = 1024;
  std::uint64_t max_region_bytes = 64ull << 30;   // per job
  std::uint64_t node_region_bytes = 64ull << 30;  // all jobs together
  std::uint32_t max_regions = 8192;               // per job
  // Bytes that the shards reserve for the operations of all jobs: ranks and child nodes times the
  // credit of each, and the buffers between nodes (protocol.md).
  std::uint64_t max_table_bytes = 1ull << 30;
  // Bytes of the buffers themselves, which are in this node's memory and serve its parent nodes; of
  // all jobs together.
  std::uint64_t max_slot_bytes = 4ull << 30;
  std::uint32_t shards = 1;
  std::uint32_t shards_per_job = 4;  // upper limit
  // credit is the most operations that a rank may have outstanding at a shard. job_credit is the
  // most for all ranks of a job together: each rank gets an equal part of it, and at least
  // kLeastCredit. So the resources of sessions at a node do not grow with the square of its jobs'
  // ranks.
  std::uint32_t credit = 256;
  std::uint32_t job_credit = 15'360;
  std::uint64_t split_bytes = 256 << 10;  // of plans that this node makes
  bool network = false;                   // sessions may come over a network; they need more
                                          // descriptors
  // Limits of this process (process_limits.h), for all jobs together. A session over shared memory
  // needs a mapping for its segment and one for each region. A session over a network needs none.
  // Both need descriptors for the connection, the client's process, and the doorbells or endpoints.
  std::uint32_t max_mappings = 32'765;
  std::uint64_t max_descriptors = UINT64_MAX;
  std::uint64_t own_descriptors = 128;  // of these, for the node itself and for connections without
                                        // a session

  // Shards that serve one job, at most.
  std::uint32_t shards_of_a_job() const { return std::min(shards, shards_per_job); }
  // The credit of each rank of a job with that many ranks.
  std::uint32_t credit_of(std::uint32_t ranks) const {
    return std::clamp(job_credit / ranks, std::min(kLeastCredit, credit), credit);
  }
};

}  // namespace tally::control
