// The state of a job at one shard: its members, its operations and its vertices. It is plain state
// that the units of the protocol share by reference, with the questions that they ask about it. It
// belongs to the shard's thread. Only the constructor allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/job/buffers.h"
#include "dataplane/protocol/job/failed_operations.h"
#include "dataplane/protocol/job/job_metrics.h"
#include "dataplane/protocol/job/job_spec.h"
#include "dataplane/protocol/operations/deadline_heap.h"
#include "dataplane/protocol/operations/operation_table.h"

namespace tally::protocol {

inline constexpr std::uint16_t kNoVertex = UINT16_MAX;

// The state of a rank or a child node. Child nodes are numbered behind the ranks.
struct MemberState {
  SessionId member = kNoSession;
  std::uint32_t outstanding = 0;
  std::uint32_t credit = 0;  // the most operations that may be outstanding
  bool gone = false;         // once true, it stays true
  bool has_last = false;     // whether last_tag and last_round name the latest announcement
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  Nanos last_notice = 0;  // time of that announcement
  RankCounters counters;
};

// Values that the shard computes once from a Vertex.
struct TreePosition {
  TileClass cls = 0;               // class of the vertex's tiles
  std::uint32_t buffer_class = 0;  // class of the buffers between the vertex and its child nodes
  // By rank: the child that the rank is, or that it is below; kNoRank when it is elsewhere in the
  // tree.
  std::vector<std::uint16_t> child_of;
  std::uint32_t ranks = 0;  // how many are children, or below them
  // Whether sums go up this tree, and whether their results go down it. Of a tree that has a result
  // tree the first alone, of a result tree the second alone.
  bool sums = true;
  bool results = true;
  // Of a root of which only one is true: the vertex of the other one. Else kNoVertex.
  std::uint16_t other = kNoVertex;

  // Returns whether any rank of the set is this child, or below it.
  bool has(const RankSet& set, std::uint16_t child) const {
    return set.all || (set.rank < child_of.size() && child_of[set.rank] == child);
  }
};

struct Job {
  Job(JobId job_id, JobSpec job_spec, bool one_class);
  // Returns the bytes that the state of such a job takes.
  static std::uint64_t footprint(const JobSpec& spec);

  // Returns the job's vertex in the tree, or kNoVertex when this shard has none.
  std::uint16_t vertex_in(std::uint32_t tree) const {
    return tree < vertex_of.size() ? vertex_of[tree] : kNoVertex;
  }
  const Vertex& vertex(const OperationRecord& operation) const {
    return spec.vertices[operation.vertex];
  }
  const TreePosition& position(const OperationRecord& operation) const {
    return positions[operation.vertex];
  }
  // Whether the vertex has child nodes, or at a root with two trees the vertex in the other one.
  bool has_child_nodes(std::uint16_t vertex) const;
  // The record of the operation's results. At a root that has sums alone it is another one.
  PoolIndex results_of(PoolIndex index) const {
    const OperationRecord& operation = table[index];
    return operation.other != kNone && !position(operation).results ? operation.other : index;
  }
  PoolIndex sums_of(PoolIndex index) const {
    const OperationRecord& operation = table[index];
    return operation.other != kNone && !position(operation).sums ? operation.other : index;
  }
  // The key of an operation of this vertex in the other tree. Precondition: the vertex is a root
  // with two trees.
  OperationKey other_key(const OperationKey& key, std::uint16_t vertex) const;
  // The record in the other tree; kNone also where there is no other tree.
  PoolIndex in_other_tree(const OperationKey& key, std::uint16_t vertex) const {
    const bool has_other = positions[vertex].other != kNoVertex;
    return has_other ? table.find(other_key(key, vertex)) : kNone;
  }
  // Returns whether all children have announced the operation, those of its other record too.
  bool all_announced(PoolIndex index) const;
  // Returns whether a parent decides how the vertex's operations end.
  bool leads_up(std::uint16_t vertex) const {
    const std::uint32_t parent = spec.vertices[vertex].parent;
    return parent != kNoParent && !parents[parent].gone;
  }

  bool is_child_node(std::uint16_t child) const { return child >= spec.ranks; }
  std::uint16_t child_of(const ChildNode& child_node) const {
    return static_cast<std::uint16_t>(spec.ranks + child_node.number);
  }
  ChildBuffers& buffers_of(std::uint16_t child) { return child_nodes[child - spec.ranks]; }
  bool is_child(std::uint16_t vertex, std::uint16_t child) const;
  // Returns the rank that stands for a child in disagreements. For a child node that is the first
  // rank below it, because all ranks below have announced the same.
  std::uint16_t stand_in(std::uint16_t vertex, std::uint16_t child) const;
  // Returns the rank that verdicts blame for a child: for a child node none.
  std::uint16_t blamed(std::uint16_t child) const {
    return is_child_node(child) ? wire::kNoRank : child;
  }
  // Returns the verdict after the loss of a child. The culprit value is a lost node's number.
  Verdict loss_of(std::uint16_t child, Status why) const;

  bool is_broken() const { return broken.status != Status::kOk; }
  // Returns whether all children know how the operation ended. A broken job keeps no operations,
  // and gives the verdict again.
  bool is_over(const OperationKey& key) const { return !is_broken() && table.closed(key); }
  void set_deadline(PoolIndex operation, Nanos deadline);

  JobId id;
  JobSpec spec;
  std::vector<TreePosition> positions;  // by vertex
  // By tree: the number of the job's vertex in it, or kNoVertex. Trees past the end have no vertex
  // here.
  std::vector<std::uint16_t> vertex_of;
  std::vector<MemberState> members;  // ranks, then child nodes
  std::vector<ChildBuffers> child_nodes;
  std::vector<ParentBuffers> parents;
  OperationTable table;
  FailedOperations failed;
  DeadlineHeap deadlines;
  std::uint32_t tiles = 0;  // in flight
  // Set when the job loses a member or a parent, here or at another vertex. With this verdict every
  // later operation of the epoch fails at once.
  Verdict broken;
  bool has_refused = false;  // whether a child has announced an operation since then
  JobTotals totals;
  TraceRing trace;
};

}  // namespace tally::protocol
