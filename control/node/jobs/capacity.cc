#include "control/node/jobs/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "control/coordinator/records/shard_indices.h"
#include "dataplane/protocol/aggregator.h"

namespace tally::control {

// An upper bound, because not every shard communicates with every remote shard.
std::uint64_t table_bytes(const JobInstance& instance, std::uint32_t shards) {
  protocol::JobSpec spec{.ranks = instance.ranks(), .credit = instance.credit};
  spec.child_nodes = static_cast<std::uint16_t>(instance.below.size());
  spec.parents = static_cast<std::uint16_t>(instance.above.size());
  spec.buffers = instance.buffers;
  spec.plan.result_trees = instance.plan.result_trees;
  const auto indices = shard_indices(instance.vertices, instance.plan, shards);
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0; index < shards; ++index) {
    spec.vertices.clear();
    for (std::size_t i = 0; i < instance.vertices.size(); ++i) {
      if (indices[i] == index) spec.vertices.push_back(instance.vertices[i]);
    }
    bytes += protocol::Aggregator::footprint(spec);
  }
  return bytes;
}

// One set of buffers for each shard and each parent node above that shard (ParentConnections).
std::uint64_t buffer_bytes(const JobInstance& instance, std::uint32_t shards) {
  const auto indices = shard_indices(instance.vertices, instance.plan, shards);
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < instance.vertices.size(); ++i) {
    if (!instance.vertices[i].is_root()) pairs.emplace(indices[i], instance.vertices[i].parent);
  }
  return pairs.size() * instance.buffers.total_bytes();
}

// A job instance that has ended holds memory until its last member has gone. It does not count as
// one of the node's jobs.
Outcome Capacity::for_instance(const JobInstance& wanted) const {
  const std::string& name = wanted.name;
  const auto running = std::count_if(
      instances_.begin(), instances_.end(),
      [&](const auto& instance) { return !instance->over && instance->name != name; });
  if (running >= static_cast<std::ptrdiff_t>(limits_.max_jobs)) {
    return refused(fmt::format("job \"{}\": the node has {} jobs and max_jobs is {}", name, running,
                               limits_.max_jobs));
  }
  if (wanted.ranks() > limits_.max_ranks) {
    return refused(fmt::format("job \"{}\": {} ranks, max_ranks is {}", name, wanted.ranks(),
                               limits_.max_ranks));
  }
  if (auto room = for_tables(wanted); !room) return room;
  return for_buffers(wanted);
}

Outcome Capacity::for_tables(const JobInstance& wanted) const {
  std::uint64_t reserved = 0;
  for (const auto& instance : instances_) reserved += instance->table_bytes;
  if (reserved + wanted.table_bytes > limits_.max_table_bytes) {
    return refused(
        fmt::format("job \"{}\": its {} ranks in {} trees with a credit of {} take {} bytes; {} of "
                    "limits.max_table_bytes {} are taken: raise it, lower shards.job_credit, or "
                    "end other jobs",
                    wanted.name, wanted.ranks(), wanted.vertices.size(), wanted.credit,
                    wanted.table_bytes, reserved, limits_.max_table_bytes));
  }
  return Unit{};
}

Outcome Capacity::for_buffers(const JobInstance& wanted) const {
  std::uint64_t taken = 0;
  for (const auto& instance : instances_) taken += instance->buffer_bytes;
  if (wanted.buffer_bytes == 0 || taken + wanted.buffer_bytes <= limits_.max_slot_bytes)
    return Unit{};
  return refused(fmt::format(
      "job \"{}\": {} buffers of {} bytes each way between nodes take {} bytes here; {} "
      "of limits.max_slot_bytes {} are taken: raise it, give its plan a \"window\" below {}, "
      "or end other jobs",
      wanted.name, wanted.buffers.all_up(), wanted.buffers.bytes, wanted.buffer_bytes, taken,
      limits_.max_slot_bytes, wanted.buffers.up));
}

// The kernel's limits apply to the whole node, so a session that exceeds them would harm every job.
Outcome Capacity::for_session(const std::string& job) const {
  constexpr std::uint64_t kDomainDescriptors = 9;
  std::uint64_t sessions = 0;
  for (const auto& instance : instances_) sessions += instance->joined;
  // Over transport fabric, each shard has an endpoint and a connection for a session, and a domain
  // for the job.
  const std::uint64_t shards = limits_.shards_of_a_job();
  const std::uint64_t each = limits_.network ? 1 + 2 * shards : 2 + shards;
  const std::uint64_t domains =
      limits_.network ? kDomainDescriptors * shards * instances_.size() : 0;
  if ((sessions + 1) * each + domains + limits_.own_descriptors > limits_.max_descriptors) {
    return refused(fmt::format(
        "job \"{}\": the node has {} sessions of {} descriptors each, and may open {} files: raise "
        "its limit (RLIMIT_NOFILE)",
        job, sessions, each, limits_.max_descriptors));
  }
  return Unit{};
}

Outcome Capacity::for_region(const JobInstance& instance, std::uint64_t bytes) const {
  if (instance.regions >= limits_.max_regions) {
    return refused(
        fmt::format("job \"{}\" has {} regions and limits.max_regions is {}: register "
                    "fewer, larger ones, or raise it",
                    instance.name, instance.regions, limits_.max_regions));
  }
  if (bytes > 0) {
    if (auto room = for_mapping(instance); !room) return room.error();
  }
  std::uint64_t node_bytes = 0;
  for (const auto& other : instances_) node_bytes += other->region_bytes;
  if (bytes > limits_.max_region_bytes - instance.region_bytes) {
    return refused(fmt::format(
        "job \"{}\" has {} bytes in {} regions; {} more pass limits.max_region_bytes {}: register "
        "less, or raise it",
        instance.name, instance.region_bytes, instance.regions, bytes, limits_.max_region_bytes));
  }
  if (bytes > limits_.node_region_bytes - node_bytes) {
    return refused(
        fmt::format("job \"{}\": all jobs of the node have registered {} bytes; {} more pass "
                    "limits.node_region_bytes {}: wait for another job's end, or raise it",
                    instance.name, node_bytes, bytes, limits_.node_region_bytes));
  }
  return Unit{};
}

Outcome Capacity::reserve(JobInstance& instance, std::uint64_t bytes) const {
  if (auto room = for_region(instance, bytes); !room) return room;
  instance.region_bytes += bytes;
  instance.mappings += bytes > 0 ? 1 : 0;
  ++instance.regions;
  return Unit{};
}

void Capacity::give_back(JobInstance& instance, std::uint64_t bytes) {
  instance.region_bytes -= bytes;
  instance.mappings -= bytes > 0 ? 1 : 0;
  --instance.regions;
}

Outcome Capacity::reserve_segment(JobInstance& instance) const {
  if (auto room = for_mapping(instance); !room) return room.error();
  ++instance.mappings;
  return Unit{};
}

Outcome Capacity::for_mapping(const JobInstance& wanted) const {
  std::uint64_t mappings = 0;
  for (const auto& instance : instances_) mappings += instance->mappings;
  if (mappings < limits_.max_mappings) return Unit{};
  return refused(
      fmt::format("job \"{}\": the node has {} mappings for the sessions and regions of all jobs "
                  "and may have {}: raise vm.max_map_count (half of it is for them)",
                  wanted.name, mappings, limits_.max_mappings));
}

}  // namespace tally::control
