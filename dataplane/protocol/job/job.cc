#include "dataplane/protocol/job/job.h"

#include <algorithm>
#include <utility>

namespace tally::protocol {
namespace {

// Counts the child nodes of all vertices: a child node announces the operations of each of its
// trees.
std::uint32_t edges_to_child_nodes(const JobSpec& spec) {
  std::size_t edges = 0;
  for (const Vertex& vertex : spec.vertices) edges += vertex.child_nodes.size();
  return static_cast<std::uint32_t>(edges);
}

// Returns how many results may wait for a buffer of one child node: those of roots' tiles, and
// those that parents hand down. A root without child nodes may hand results to child nodes of its
// result tree, from as many tiles as a class of buffers has.
std::size_t most_waiting(const JobSpec& spec) {
  const std::uint32_t without_child_nodes = spec.plan.result_trees.empty() ? 0 : spec.buffers.up;
  return std::size_t{spec.buffers.all_up()} + without_child_nodes +
         std::size_t{spec.parents} * spec.buffers.all_down();
}

// Whether the shard has a root whose results go down another tree.
bool has_pair(const JobSpec& spec) {
  return std::ranges::any_of(spec.vertices, [&](const Vertex& vertex) {
    return vertex.is_root() && spec.plan.result_tree(vertex.tree) != kNoTree;
  });
}

// An operation at a root with a result tree has two records, also when it has failed. The first
// notice of either makes both.
std::uint32_t announcers_of(const JobSpec& spec) {
  const std::uint32_t announcers = spec.ranks + edges_to_child_nodes(spec);
  return has_pair(spec) ? 2 * (announcers + 1) : announcers;
}
std::uint32_t most_failed(const JobSpec& spec) {
  return has_pair(spec) ? 2 * spec.credit : spec.credit;
}

TreePosition position_of(const Vertex& vertex, const JobSpec& spec, bool one_class) {
  TreePosition position;
  position.sums = spec.plan.sum_tree(vertex.tree) == kNoTree;
  position.results = spec.plan.result_tree(vertex.tree) == kNoTree;
  position.cls = one_class ? 0 : vertex.height - 1;
  position.buffer_class = one_class || vertex.height < 2 ? 0 : vertex.height - 2;
  position.child_of.assign(spec.ranks, wire::kNoRank);
  for (const std::uint16_t rank : vertex.ranks) position.child_of[rank] = rank;
  for (const ChildNode& child_node : vertex.child_nodes) {
    for (const std::uint16_t rank : child_node.ranks) {
      position.child_of[rank] = static_cast<std::uint16_t>(spec.ranks + child_node.number);
    }
  }
  position.ranks = static_cast<std::uint32_t>(
      std::count_if(position.child_of.begin(), position.child_of.end(),
                    [](std::uint16_t child) { return child != wire::kNoRank; }));
  return position;
}

}  // namespace

ChildBuffers::ChildBuffers(const BufferLayout& layout, std::size_t most_waiting)
    : up(layout.all_up()),
      down(layout.all_down()),
      free_up(layout.classes),
      free_down(layout.classes),
      waiting(layout.classes) {
  for (std::uint32_t cls = 0; cls < layout.classes; ++cls) {
    // The lowest buffers come first, because their memory is still in the caches.
    for (std::uint32_t i = layout.up; i-- > 0;) free_up[cls].push_back(cls * layout.up + i);
    for (std::uint32_t i = layout.down; i-- > 0;) free_down[cls].push_back(cls * layout.down + i);
    waiting[cls].reserve(most_waiting);
  }
}

ParentBuffers::ParentBuffers(const BufferLayout& layout)
    : up(layout.all_up()), down(layout.all_down()) {}

Job::Job(JobId job_id, JobSpec job_spec, bool one_class)
    : id(job_id),
      spec(std::move(job_spec)),
      members(spec.ranks + std::size_t{spec.child_nodes}),
      parents(spec.parents, ParentBuffers(spec.buffers)),
      table(static_cast<std::uint16_t>(members.size()), spec.credit, announcers_of(spec),
            static_cast<std::uint32_t>(spec.vertices.size())),
      failed(table, most_failed(spec)),
      deadlines(table.capacity()) {
  for (std::uint16_t i = 0; i < spec.vertices.size(); ++i) {
    const Vertex& vertex = spec.vertices[i];
    if (vertex.tree >= vertex_of.size()) vertex_of.resize(vertex.tree + 1, kNoVertex);
    vertex_of[vertex.tree] = i;
    positions.push_back(position_of(vertex, spec, one_class));
    for (const ChildNode& child_node : vertex.child_nodes)
      members[child_of(child_node)].credit += spec.credit;
  }
  for (std::uint16_t i = 0; i < spec.vertices.size(); ++i) {
    const std::uint16_t other = vertex_in(spec.plan.result_tree(spec.vertices[i].tree));
    if (!spec.vertices[i].is_root() || other == kNoVertex) continue;
    positions[i].other = other;
    positions[other].other = i;
  }
  for (std::uint16_t rank = 0; rank < spec.ranks; ++rank) members[rank].credit = spec.credit;
  child_nodes.assign(spec.child_nodes, ChildBuffers(spec.buffers, most_waiting(spec)));
}

bool Job::is_child(std::uint16_t vertex, std::uint16_t child) const {
  if (!is_child_node(child)) return positions[vertex].child_of[child] == child;
  const std::vector<ChildNode>& below = spec.vertices[vertex].child_nodes;
  return std::any_of(below.begin(), below.end(),
                     [&](const ChildNode& child_node) { return child_of(child_node) == child; });
}

bool Job::has_child_nodes(std::uint16_t vertex) const {
  const std::uint16_t other = positions[vertex].other;
  return !spec.vertices[vertex].child_nodes.empty() ||
         (other != kNoVertex && !spec.vertices[other].child_nodes.empty());
}

OperationKey Job::other_key(const OperationKey& key, std::uint16_t vertex) const {
  return {spec.vertices[positions[vertex].other].tree, key.group, key.tag, key.round};
}

bool Job::all_announced(PoolIndex index) const {
  const OperationRecord& operation = table[index];
  const auto complete = [](const OperationRecord& one) { return one.announced == one.children; };
  return complete(operation) && (operation.other == kNone || complete(table[operation.other]));
}

std::uint16_t Job::stand_in(std::uint16_t vertex, std::uint16_t child) const {
  if (!is_child_node(child)) return child;
  for (const ChildNode& child_node : spec.vertices[vertex].child_nodes) {
    if (child_of(child_node) == child) return child_node.ranks.front();
  }
  return wire::kNoRank;
}

Verdict Job::loss_of(std::uint16_t child, Status why) const {
  Verdict verdict{.status = why, .culprit = blamed(child)};
  if (!is_child_node(child)) return verdict;
  const std::size_t number = child - spec.ranks;
  if (number < spec.child_node_numbers.size())
    verdict.culprit_value = spec.child_node_numbers[number];
  return verdict;
}

void Job::set_deadline(PoolIndex operation, Nanos deadline) {
  if (deadline == table[operation].deadline) return;
  table[operation].deadline = deadline;
  deadlines.remove(operation);
  deadlines.insert(operation, deadline);
}

std::uint64_t Job::footprint(const JobSpec& spec) {
  const std::uint64_t members = spec.ranks + std::uint64_t{spec.child_nodes};
  const std::uint64_t position = sizeof(TreePosition) + spec.ranks * sizeof(std::uint16_t);
  const std::uint64_t up = spec.buffers.all_up();
  const std::uint64_t down = spec.buffers.all_down();
  const std::uint64_t waiting = spec.buffers.classes * most_waiting(spec);
  const std::uint64_t child_node = up * (sizeof(ChildBuffers::Up) + sizeof(std::uint32_t)) +
                                   down * (sizeof(ChildBuffers::Down) + sizeof(std::uint32_t)) +
                                   waiting * sizeof(ChildBuffers::Waiting);
  const std::uint64_t parent = up * sizeof(ParentBuffers::Up) + down * sizeof(ParentBuffers::Down);
  return OperationTable::footprint(static_cast<std::uint16_t>(members), spec.credit,
                                   announcers_of(spec),
                                   static_cast<std::uint32_t>(spec.vertices.size())) +
         TraceRing::kLatest * sizeof(TraceRecord) + members * sizeof(MemberState) +
         spec.vertices.size() * position + spec.child_nodes * child_node + spec.parents * parent;
}

}  // namespace tally::protocol
