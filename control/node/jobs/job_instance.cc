#include "control/node/jobs/job_instance.h"

#include <algorithm>

#include "control/coordinator/records/shard_indices.h"

namespace tally::control {
namespace {

using protocol::Vertex;

std::vector<std::uint32_t> rising(std::vector<std::uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// Precondition: `numbers` contains `number`.
std::uint32_t place_in(const std::vector<std::uint32_t>& numbers, std::uint32_t number) {
  return static_cast<std::uint32_t>(std::lower_bound(numbers.begin(), numbers.end(), number) -
                                    numbers.begin());
}

std::vector<std::uint32_t> indices_of(const JobInstance& instance) {
  return shard_indices(instance.vertices, instance.plan,
                       static_cast<std::uint32_t>(instance.shards.size()));
}

std::vector<Vertex> as_placed(const JobInstance& instance, std::uint32_t shard) {
  std::vector<Vertex> here;
  const std::uint32_t index = instance.shard_index(shard);
  if (index == kNoShardIndex) return here;
  const auto indices = indices_of(instance);
  for (std::size_t i = 0; i < instance.vertices.size(); ++i) {
    if (indices[i] == index) here.push_back(instance.vertices[i]);
  }
  return here;
}

// The tree's share of the bytes of the largest operations that it carries. A result tree has that
// of its sums.
double share_of(const protocol::Partition& plan, std::uint32_t tree) {
  if (const std::uint32_t sums = plan.sum_tree(tree); sums != protocol::kNoTree) tree = sums;
  for (auto size = plan.classes.rbegin(); size != plan.classes.rend(); ++size) {
    const auto found = std::lower_bound(size->trees.begin(), size->trees.end(), tree);
    if (found == size->trees.end() || *found != tree) continue;
    return size->weights[static_cast<std::size_t>(found - size->trees.begin())] /
           static_cast<double>(protocol::kWeightUnit);
  }
  return 0;
}

}  // namespace

std::vector<std::uint32_t> JobInstance::below_at(std::uint32_t shard) const {
  std::vector<std::uint32_t> numbers;
  for (const Vertex& vertex : as_placed(*this, shard)) {
    for (const protocol::ChildNode& child_node : vertex.child_nodes)
      numbers.push_back(child_node.number);
  }
  return rising(std::move(numbers));
}

std::vector<std::uint32_t> JobInstance::above_at(std::uint32_t shard) const {
  std::vector<std::uint32_t> numbers;
  for (const Vertex& vertex : as_placed(*this, shard)) {
    if (!vertex.is_root()) numbers.push_back(vertex.parent);
  }
  return rising(std::move(numbers));
}

std::vector<Vertex> JobInstance::vertices_at(std::uint32_t shard) const {
  const auto children = below_at(shard), parents = above_at(shard);
  std::vector<Vertex> here = as_placed(*this, shard);
  for (Vertex& vertex : here) {
    for (protocol::ChildNode& child_node : vertex.child_nodes) {
      child_node.number = static_cast<std::uint16_t>(place_in(children, child_node.number));
    }
    if (!vertex.is_root()) vertex.parent = place_in(parents, vertex.parent);
  }
  return here;
}

std::uint32_t JobInstance::member_at(std::uint32_t shard, std::uint32_t member) const {
  if (!is_child_node(member)) return member;
  const auto children = below_at(shard);
  const std::uint32_t number = member - ranks();
  const bool known = std::binary_search(children.begin(), children.end(), number);
  return known ? ranks() + place_in(children, number) : kNobody;
}

std::uint32_t JobInstance::joined_ranks() const {
  return static_cast<std::uint32_t>(
      std::count_if(members.begin(), members.begin() + ranks(),
                    [](std::uint32_t session) { return session != kNobody; }));
}

std::uint32_t JobInstance::shard_of(std::uint32_t tree) const {
  const auto at = std::lower_bound(
      vertices.begin(), vertices.end(), tree,
      [](const Vertex& vertex, std::uint32_t other) { return vertex.tree < other; });
  return shards[indices_of(*this)[static_cast<std::size_t>(at - vertices.begin())]];
}

bool JobInstance::unclaimed() const {
  if (!placed || over) return false;
  const bool has_ranks = std::any_of(vertices.begin(), vertices.end(),
                                     [](const Vertex& vertex) { return !vertex.ranks.empty(); });
  return (has_ranks ? joined_ranks() : joined) == 0;
}

bool JobInstance::is_empty(const Vertex& vertex) const {
  const bool ranks_gone = std::all_of(vertex.ranks.begin(), vertex.ranks.end(),
                                      [&](std::uint16_t rank) { return members[rank] == kNobody; });
  return ranks_gone &&
         std::all_of(
             vertex.child_nodes.begin(), vertex.child_nodes.end(),
             [&](const protocol::ChildNode& child_node) {
               const std::uint32_t member = ranks() + child_node.number;
               return members[member] == kNobody || empty_below.contains({member, vertex.tree});
             });
}

std::uint32_t JobInstance::messages_of(std::uint32_t member) const {
  constexpr std::uint32_t kOthers = 16;  // a broken job, missing ranks
  const std::uint32_t number = member - ranks();
  const auto of_it = [number](const protocol::ChildNode& one) { return one.number == number; };
  const auto edges = static_cast<std::uint32_t>(
      std::count_if(vertices.begin(), vertices.end(), [&](const Vertex& vertex) {
        return std::any_of(vertex.child_nodes.begin(), vertex.child_nodes.end(), of_it);
      }));
  return edges * credit + buffers.all_up() + buffers.all_down() + kOthers;
}

std::uint32_t JobInstance::shard_index(std::uint32_t shard) const {
  const auto found = std::find(shards.begin(), shards.end(), shard);
  return found == shards.end() ? kNoShardIndex : static_cast<std::uint32_t>(found - shards.begin());
}

std::vector<std::uint32_t> JobInstance::trees() const {
  std::vector<std::uint32_t> trees;
  for (const protocol::Vertex& vertex : vertices) trees.push_back(vertex.tree);
  return trees;
}

protocol::JobSpec JobInstance::spec_at(std::uint32_t shard) const {
  protocol::JobSpec spec;
  spec.epoch = epoch;
  spec.ranks = ranks();
  spec.weight = weight;
  spec.eager_results = eager_results;
  spec.owner = owner_number;
  spec.plan = plan;
  spec.vertices = vertices_at(shard);
  for (Vertex& vertex : spec.vertices) {
    if (!vertex.is_root()) continue;
    const double share = share_of(plan, vertex.tree);
    vertex.pace = static_cast<std::uint64_t>(share * static_cast<double>(rate));
  }
  spec.credit = spec.vertices.empty() ? 1 : credit;
  spec.buffers = buffers;
  for (const std::uint32_t one : below_at(shard))
    spec.child_node_numbers.push_back(below[one].node);
  for (const std::uint32_t one : above_at(shard)) {
    spec.parent_node_numbers.push_back(above[one].node);
  }
  spec.child_nodes = static_cast<std::uint16_t>(spec.child_node_numbers.size());
  spec.parents = static_cast<std::uint16_t>(spec.parent_node_numbers.size());
  return spec;
}

}  // namespace tally::control
