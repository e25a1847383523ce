#include "control/coordinator/state/jobs/assignment_of.h"

#include <algorithm>

namespace tally::control {
namespace {

// The remote shards as the node `from` reaches them. On its own machine it uses shared memory, as
// clients do. Else it uses a NIC that is up for the job.
std::vector<RemoteShard> remote_shards(const JobRecord& job, const Member& from,
                                       const std::vector<ShardOf>& shards) {
  std::vector<RemoteShard> list;
  for (const ShardOf& one : shards) {
    const auto at = std::find_if(job.nodes.begin(), job.nodes.end(),
                                 [&](const PlanNode& other) { return other.node == one.node; });
    const Member& member = at->member;
    const bool here = !member.local.empty() && (member.host == from.host || member.tcp.empty());
    list.push_back({member.name, here ? "" : member.usable_tcp(), here ? member.local : "",
                    one.index, static_cast<std::uint32_t>(at - job.nodes.begin() + 1)});
  }
  return list;
}

}  // namespace

JobAssignment assignment_of(const JobRecord& job, const PlanNode& node) {
  JobAssignment assignment;
  assignment.id = node.placement;
  assignment.job = job.name;
  assignment.lock = job.lock;
  assignment.epoch = job.epoch;
  assignment.follows = job.follows;
  assignment.ranks = job.ranks;
  assignment.rank_loss = job.rank_loss;
  assignment.left_out = job.left_out;
  assignment.weight = job.weight;
  assignment.owner = job.owner;
  assignment.plan = job.plan;
  assignment.plan_epoch = job.plan_epoch;
  assignment.trees = node.trees;
  assignment.vertices = node.vertices;
  assignment.below = remote_shards(job, node.member, node.below);
  assignment.above = remote_shards(job, node.member, node.above);
  assignment.buffers = job.buffers;
  assignment.nodes = static_cast<std::uint32_t>(job.nodes.size());
  assignment.rate = job.rate;
  assignment.rails = node.rails;
  assignment.stands_in_for = node.stands_in_for;
  return assignment;
}

}  // namespace tally::control
