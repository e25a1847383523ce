// What a node's limits leave for job instances, sessions, regions and mappings. It adds up what the
// instances have, so it has no counters of its own. It refuses a request early, with the numbers,
// before the kernel or a shard would fail in the middle of it. Control thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/node/jobs/job_instance.h"
#include "control/node/jobs/limits.h"

namespace tally::control {

// Bytes that so many shards reserve for an instance, at most.
std::uint64_t table_bytes(const JobInstance& instance, std::uint32_t shards);
// Bytes of its buffers in this node's memory.
std::uint64_t buffer_bytes(const JobInstance& instance, std::uint32_t shards);

class Capacity {
 public:
  // Borrows both for its life.
  Capacity(const AdmissionLimits& limits,
           const std::vector<std::unique_ptr<JobInstance>>& instances)
      : limits_(limits), instances_(instances) {}

  // The functions for_... return whether there is room, or why not. The instance that is wanted is
  // none of `instances` yet.
  Outcome for_instance(const JobInstance& wanted) const;
  Outcome for_session(const std::string& job) const;
  // 0 bytes: the memory stays with its owner on another machine, and this node maps nothing.
  Outcome for_region(const JobInstance& instance, std::uint64_t bytes) const;

  // Reserves the room for a region, or returns why there is none.
  Outcome reserve(JobInstance& instance, std::uint64_t bytes) const;
  static void give_back(JobInstance& instance, std::uint64_t bytes);
  // Reserves a mapping for the segment of a session over shared memory, or returns why it cannot.
  Outcome reserve_segment(JobInstance& instance) const;
  static void give_back_segment(JobInstance& instance) { --instance.mappings; }

 private:
  Outcome for_tables(const JobInstance& wanted) const;
  Outcome for_buffers(const JobInstance& wanted) const;
  Outcome for_mapping(const JobInstance& wanted) const;

  const AdmissionLimits& limits_;
  const std::vector<std::unique_ptr<JobInstance>>& instances_;
};

}  // namespace tally::control
