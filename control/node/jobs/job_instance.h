// A job instance at this node: what it consists of, and what each shard has to do with it. It is a
// plain value of the control thread; Admission makes and keeps it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/coordinator/records/job_assignment.h"
#include "dataplane/partition/partition.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::control {

inline constexpr std::uint32_t kNobody = UINT32_MAX;
inline constexpr std::uint32_t kNoShardIndex = UINT32_MAX;

// An instance of a job at this node: one epoch, from the first session that joins to the end of the
// last one. When a rank leaves, this instance is over. The job may form again under the next epoch
// while this one winds down.
//
// A *shard index* is the index of a shard among those that serve the job at this node: 0, 1, ... A
// session has an end at each of them (rings and a doorbell, an endpoint, or a queue pair). A *tree*
// is one of the job's plan, which may have trees at other nodes too. shard_indices() has the shard
// of each of this node's trees. On a node that is in no cluster, each shard has one tree.
struct JobInstance {
  std::string name;
  JobLock lock;
  std::uint64_t identity = 0;  // unique among all job instances of this node, past and present
  protocol::JobId job_id = 0;  // the job's number at the shards
  // kDone: the shards know the job. kNoMemory: some shard had no memory for it, so the instance is
  // over.
  enum class Registration : std::uint8_t { kPending, kDone, kNoMemory };
  Registration registration = Registration::kPending;
  // The user or machine that opened the job. All jobs of an owner divide one share of the shards.
  // Empty: the configuration names the job, and the job has a share of its own.
  std::string owner;
  protocol::OwnerId owner_number = protocol::kNoOwner;  // the owner's number at the shards
  std::uint32_t epoch = 1;
  std::uint32_t weight = 1;
  std::uint32_t credit = 0;           // operations that a rank may have outstanding at a shard
  protocol::Partition plan;           // the whole plan, also trees of other nodes
  std::vector<std::uint32_t> shards;  // the shards that serve the job, by shard index
  std::uint64_t plan_epoch = 0;       // epoch of the plan's file; 0 means the plan has no file
  // This node's vertex in each tree that it takes part in, by ascending tree.
  std::vector<protocol::Vertex> vertices;
  // Shards of other nodes that are children (below) or parents (above) of this node's shards in
  // these trees. Both are empty when all trees are stars.
  std::vector<RemoteShard> below, above;
  protocol::BufferLayout buffers{};
  std::vector<std::string> stands_in_for{};  // nodes of the plan that this node replaces
  std::uint32_t nodes = 1;                   // nodes that have trees of the plan
  // Results of small operations may complete on arrival. Not in a job that may go on without a
  // rank: such a result may have reached some ranks only, when it is computed again without that
  // rank.
  bool eager_results = true;
  std::uint64_t rate = 0;       // bytes of operations per second that the plan is made for; 0 means
                                // unknown
  bool placed = false;          // a coordinator placed it: ranks join it with its epoch
  std::uint64_t placement = 0;  // the coordinator's number for it; 0 means that no coordinator
                                // waits for its end
  Nanos placed_at = 0;
  // By rank, then by index in below: the number of the session, or kNobody.
  std::vector<std::uint32_t> members;
  std::uint32_t joined = 0;
  std::uint32_t regions = 0;
  std::uint32_t mappings = 0;  // mappings of this process: segments, and regions that are mapped
  std::uint64_t region_bytes = 0;
  std::uint64_t table_bytes = 0;
  std::uint64_t buffer_bytes = 0;  // bytes of buffers in this node's memory
  bool over = false;
  // (member, tree) of connected child nodes that have reported that no rank is left below them in
  // that tree.
  std::set<std::pair<std::uint32_t, std::uint32_t>> empty_below;  // member, tree

  void set_registered(bool done) {
    registration = done ? Registration::kDone : Registration::kNoMemory;
  }
  // The shard's index; kNoShardIndex when the shard does not serve the job.
  std::uint32_t shard_index(std::uint32_t shard) const;
  // The vertices at the shard. They number child and parent nodes as the shard does: only those
  // that the shard exchanges messages with.
  std::vector<protocol::Vertex> vertices_at(std::uint32_t shard) const;
  // Indexes into below and above of the nodes that the shard exchanges messages with, ascending.
  std::vector<std::uint32_t> below_at(std::uint32_t shard) const;
  std::vector<std::uint32_t> above_at(std::uint32_t shard) const;
  // The shard's number for a member; for a rank it is the rank. kNobody: the shard has no such
  // member.
  std::uint32_t member_at(std::uint32_t shard, std::uint32_t member) const;
  std::uint32_t joined_ranks() const;
  // True when the instance is placed and no session has joined: no rank, or no child node where the
  // instance has no ranks here.
  bool unclaimed() const;
  // True when no rank is left below the vertex. Precondition: the instance is over, so no rank can
  // join.
  bool is_empty(const protocol::Vertex& vertex) const;
  // Messages that a child node has in flight at most, in each direction: credit operations for each
  // vertex that it is a child of, and the messages for its buffers. Its transport may allow fewer.
  std::uint32_t messages_of(std::uint32_t member) const;
  std::vector<std::uint32_t> trees() const;
  // Precondition: the tree is one of trees().
  std::uint32_t shard_of(std::uint32_t tree) const;
  // What the shard must know of the job. A shard that does not serve the job knows it too, and has
  // no vertices of it.
  protocol::JobSpec spec_at(std::uint32_t shard) const;
  std::uint16_t ranks() const { return static_cast<std::uint16_t>(members.size() - below.size()); }
  bool is_child_node(std::uint32_t member) const { return member >= ranks(); }
};

}  // namespace tally::control
