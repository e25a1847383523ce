#include "control/coordinator/layout/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "control/coordinator/layout/file_trees.h"
#include "control/coordinator/layout/homes.h"
#include "control/coordinator/layout/shares.h"
#include "control/coordinator/layout/substitutes.h"
#include "control/coordinator/records/tree_buffers.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"

namespace tally::control {
namespace {

using plan::Shape;
using plan::VertexId;
using protocol::kMaxTrees;
using protocol::Vertex;
using Ranks = std::vector<std::uint16_t>;

class Layouter {
 public:
  Layouter(const MachinePlan& plan, const Members& members, const std::vector<Ranks>& ranks)
      : plan_(plan), found_(trees_of(plan)), ranks_(plan.file.network.machines()) {
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks_[plan.of().workers[i]] = ranks[i];
    homes_.resize(ranks_.size());
    home_below_.resize(ranks_.size());
    const Members all = without_lost_rails(members);
    seats_ = find_seats(plan, found_, all).value();
    for (VertexId id = 0; id < homes_.size(); ++id) {
      const auto* member = member_of(plan, all, id);
      if (member == nullptr) continue;
      homes_[id].member = member->second;
      add_node(*member);
    }
    for (const auto& member : all) add_node(member);
  }

  Layout run(std::uint64_t split_bytes) {
    number_trees();
    for (PlanNode& home : homes_) home_rails_.push_back(rails_of(home));
    for (PlanNode& node : nodes_) give_rails(node);
    add_vertices();
    Layout layout{{trees_, classes(split_bytes)}, {}};
    // Homes come first, because results of their own add to the parts of an operation.
    layout.plan.homes = known_homes(layout.plan, plan_.of().tensors);
    layout.plan.result_trees = result_trees();
    for (PlanNode& node : nodes_) {
      if (!node.trees.empty()) layout.nodes.push_back(std::move(node));
    }
    return layout;
  }

 private:
  void add_node(const std::pair<const NodeId, Member>& member) {
    if (member.second.draining || node_index_.contains(member.first)) return;
    node_index_[member.first] = nodes_.size();
    PlanNode& node = nodes_.emplace_back();
    node.node = member.first;
    node.member = member.second;
    for (const VertexId id : seats_.stands_in_for[member.first]) {
      node.stands_in_for.push_back(plan_.file.network.name_of(id));
    }
  }

  // The node at the machine's vertex in the given tree of the file.
  PlanNode& node_at(std::size_t tree, VertexId id) {
    return nodes_[node_index_.at(seats_.by_tree[tree].at(id))];
  }

  // Numbers the copies of each tree consecutively.
  void number_trees() {
    const std::vector<std::uint32_t> copies = copies_of_each();
    for (std::size_t i = 0; i < copies.size(); ++i) {
      first_.push_back(trees_);
      trees_ += copies[i];
    }
    first_.push_back(trees_);
    for (std::size_t i = 0; i < found_.trees.size(); ++i) {
      const Shape& shape = found_.trees[i].shape;
      for (const VertexId id : shape.order()) {
        if (!sums(shape, id)) continue;
        for (std::uint32_t tree = first_[i]; tree < first_[i + 1]; ++tree) {
          homes_[id].trees.push_back(tree);
          node_at(i, id).trees.push_back(tree);
        }
      }
    }
  }

  // By shard index: its NIC, and its part of the bytes that the node carries.
  static std::vector<RailTree> rails_of(const PlanNode& node) {
    if (node.trees.empty()) return {};
    return over_rails(node.member.rails, node.shards(), plan::kWeightUnit);
  }

  // A tree uses the NIC of its shard.
  static void give_rails(PlanNode& node) {
    const auto rails = rails_of(node);
    for (std::size_t i = 0; i < node.trees.size() && !node.member.rails.empty(); ++i) {
      node.rails.push_back(rails[i % rails.size()].rail);
    }
  }

  std::vector<std::uint32_t> copies_of_each() const {
    for (std::uint32_t bound = kMaxTrees;; --bound) {
      std::vector<std::uint32_t> copies;
      for (const FileTree& tree : found_.trees) {
        std::uint32_t most = std::min(copies_at(tree.shape), bound);
        // Both ways of a tree have as many copies.
        if (tree.results != kNoFileTree) {
          most = std::min(most, copies_at(found_.trees[tree.results].shape));
        }
        if (tree.sums != kNoFileTree) most = copies[tree.sums];
        copies.push_back(std::min(most, tree.least));
      }
      const bool fit = std::accumulate(copies.begin(), copies.end(), 0U) <= kMaxTrees;
      if (fit || bound == 1) return copies;
    }
  }

  // One copy at each shard of the root. A node uses each of its shards, or one for each tree when
  // it has fewer trees. A node that has lost NICs gets no more trees than its other NICs have
  // shards.
  std::uint32_t copies_at(const Shape& shape) const {
    std::uint32_t copies = homes_[shape.root()].member.shards;
    for (const VertexId id : shape.order()) {
      const Member& member = homes_[id].member;
      if (!sums(shape, id) || !has_lost_rails(member)) continue;
      copies = std::min(copies, std::max(1U, member.usable_shards() / trees_at(found_, id)));
    }
    return copies;
  }

  // By tree; empty when no tree has one.
  std::vector<std::uint32_t> result_trees() const {
    std::vector<std::uint32_t> results;
    for (std::size_t i = 0; i < found_.trees.size(); ++i) {
      if (found_.trees[i].results == kNoFileTree) continue;
      results.resize(trees_, protocol::kNoTree);
      const std::uint32_t first = first_[found_.trees[i].results];
      std::iota(results.begin() + first_[i], results.begin() + first_[i + 1], first);
    }
    return results;
  }

  // The copy of a tree whose shard index its root has: a root of results is where that of its sums
  // is (shard_indices()).
  std::uint32_t seat_of_root(std::size_t file_tree, std::uint32_t tree) const {
    const std::size_t sums = found_.trees[file_tree].sums;
    return sums == kNoFileTree ? tree : tree - first_[file_tree] + first_[sums];
  }

  // Of a vertex that is no root of results.
  static std::uint32_t index_of(const PlanNode& node, std::uint32_t tree) {
    const auto at = std::find(node.trees.begin(), node.trees.end(), tree) - node.trees.begin();
    return static_cast<std::uint32_t>(at) % node.shards();
  }

  // The index of a remote shard in the list. Appends the shard when it is new.
  static std::uint32_t number_in(std::vector<ShardOf>& list, const ShardOf& one) {
    const auto found = std::find(list.begin(), list.end(), one);
    if (found != list.end()) return static_cast<std::uint32_t>(found - list.begin());
    list.push_back(one);
    return static_cast<std::uint32_t>(list.size() - 1);
  }

  void add_vertices() {
    for (std::size_t i = 0; i < found_.trees.size(); ++i) {
      const Shape& shape = found_.trees[i].shape;
      // Children come before their parents, so that the ranks below a child node are known.
      std::vector<Ranks> below(ranks_.size());
      for (auto id = shape.order().rbegin(); id != shape.order().rend(); ++id) {
        below[*id] = ranks_[*id];
        for (const VertexId child : shape.children(*id)) {
          below[*id].insert(below[*id].end(), below[child].begin(), below[child].end());
        }
        std::sort(below[*id].begin(), below[*id].end());
      }
      for (const VertexId id : shape.order()) {
        if (!sums(shape, id)) continue;
        for (std::uint32_t tree = first_[i]; tree < first_[i + 1]; ++tree) {
          node_at(i, id).vertices.push_back(vertex(i, id, tree, below));
        }
      }
    }
  }

  Vertex vertex(std::size_t file_tree, VertexId id, std::uint32_t tree,
                const std::vector<Ranks>& below) {
    const Shape& shape = found_.trees[file_tree].shape;
    PlanNode& here = node_at(file_tree, id);
    Vertex vertex;
    vertex.tree = tree;
    vertex.height = std::max(1U, shape.height(id));
    vertex.ranks = ranks_[id];
    std::map<std::uint32_t, protocol::ChildNode> child_nodes;  // in the order of the sum
    for (const VertexId child : shape.children(id)) {
      if (!sums(shape, child)) {
        vertex.ranks.insert(vertex.ranks.end(), below[child].begin(), below[child].end());
        continue;
      }
      const PlanNode& there = node_at(file_tree, child);
      const auto number = number_in(here.below, {there.node, index_of(there, tree)});
      child_nodes[place_in_sum(id, child, tree)] = {static_cast<std::uint16_t>(number),
                                                    below[child]};
    }
    std::sort(vertex.ranks.begin(), vertex.ranks.end());
    for (auto& [place, child_node] : child_nodes)
      vertex.child_nodes.push_back(std::move(child_node));
    if (id != shape.root()) {
      const auto parent = static_cast<VertexId>((*found_.trees[file_tree].parents)[id]);
      const PlanNode& there = node_at(file_tree, parent);
      const std::uint32_t at = parent == shape.root() ? seat_of_root(file_tree, tree) : tree;
      vertex.parent = number_in(here.above, {there.node, index_of(there, at)});
    }
    return vertex;
  }

  // The position of a child node in the sum. It is the number that the child has when every machine
  // has its own node. Substitutes have other numbers, and the bits of a sum depend on its order.
  std::uint32_t place_in_sum(VertexId id, VertexId child, std::uint32_t tree) {
    return number_in(home_below_[id], {child, index_of(homes_[child], tree)});
  }

  std::vector<protocol::SizeClass> classes(std::uint64_t split_bytes) const {
    std::vector<protocol::SizeClass> classes;
    std::uint64_t next = 0;  // the smallest operation without a class so far
    for (std::size_t i = 0; i < found_.by_class.size(); ++i) {
      const plan::SizeClass& from = plan_.of().classes[i];
      protocol::SizeClass one = weights(i);
      one.max_bytes = from.max_bytes.value_or(protocol::kAnySize);
      one.divided = from.is_divided();
      if (one.divided && next < split_bytes && split_bytes - 1 < one.max_bytes) {
        classes.push_back(one);
        classes.back().max_bytes = split_bytes - 1;
        classes.back().divided = false;
      } else if (one.divided && one.max_bytes < split_bytes) {
        one.divided = false;
      }
      one.in_order = one.divided && from.rs_ag && !from.max_bytes;
      next = one.max_bytes + 1;
      classes.push_back(std::move(one));
    }
    return classes;
  }

  // The trees of a class in ascending order, each with its part of the weight.
  protocol::SizeClass weights(std::size_t index) const {
    std::vector<std::uint32_t> by_tree(trees_);
    for (std::size_t i = 0; i < found_.by_class[index].size(); ++i) {
      const std::size_t tree = found_.by_class[index][i];
      const std::uint32_t weight = plan_.of().classes[index].trees[i].weight;
      const auto parts = parts_of(tree, weight);
      for (std::size_t copy = 0; copy < parts.size(); ++copy) {
        by_tree[first_[tree] + copy] += parts[copy];
      }
    }
    return protocol::weighted_partition(by_tree, 0).classes.front();
  }

  // Divides a tree's weight among its copies by the speed of their NICs. Each copy gets a part.
  std::vector<std::uint32_t> parts_of(std::size_t tree, std::uint32_t weight) const {
    const VertexId root = found_.trees[tree].shape.root();
    std::vector<double> speeds;
    for (std::uint32_t copy = first_[tree]; copy < first_[tree + 1]; ++copy) {
      speeds.push_back(home_rails_[root][index_of(homes_[root], copy)].weight);
    }
    const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    const auto rest = weight - static_cast<std::uint32_t>(speeds.size());
    std::vector<std::uint32_t> parts;
    double before = 0;
    std::uint32_t given = 0;
    for (const double speed : speeds) {
      before += speed;
      const auto until = static_cast<std::uint32_t>(rest * before / sum + 0.5);
      parts.push_back(1 + until - given);
      given = until;
    }
    return parts;
  }

  const MachinePlan& plan_;
  FileTrees found_;
  std::vector<Ranks> ranks_;  // by machine
  Seats seats_;
  // By machine: its own node, with all trees that it sums in. The partition is made for these
  // nodes, so it does not depend on substitutes.
  std::vector<PlanNode> homes_;
  std::vector<std::vector<RailTree>> home_rails_;  // of homes_
  std::vector<std::vector<ShardOf>> home_below_;   // of homes_; with machines instead of nodes
  std::vector<PlanNode> nodes_;                    // all nodes that may have trees
  std::map<NodeId, std::size_t> node_index_;       // index into nodes_
  std::vector<std::uint32_t> first_;               // first copy of each tree, then the end
  std::uint32_t trees_ = 0;
};

protocol::BufferLayout buffers_of(const Layout& layout, const plan::Domain& domain) {
  plan::Pieces pieces = plan::wanted_pieces(domain);
  if (layout.rate > 0) pieces = plan::paced_pieces(pieces);
  return buffer_layout(layout.nodes, pieces);
}

}  // namespace

Layout star_layout(const Members& members, std::uint32_t ranks, std::uint64_t split_bytes) {
  Layout layout;
  std::vector<Member> list;
  for (const auto& [node, member] : members) list.push_back(member);
  const auto shares = node_shares(list);
  const auto counts = tree_counts(list, shares);
  std::vector<std::uint32_t> weights;  // by tree
  std::size_t i = 0;
  for (const auto& [node, member] : members) {
    const std::uint32_t share = shares[i], count = counts[i++];
    if (count == 0) continue;
    PlanNode& one = layout.nodes.emplace_back();
    one.node = node;
    one.member = member;
    for (const RailTree& rooted : over_rails(member.rails, count, share)) {
      const auto tree = static_cast<std::uint32_t>(weights.size());
      one.trees.push_back(tree);
      if (!member.rails.empty()) one.rails.push_back(rooted.rail);
      one.vertices.push_back(protocol::star(tree, static_cast<std::uint16_t>(ranks)));
      weights.push_back(rooted.weight);
    }
  }
  layout.plan = protocol::weighted_partition(weights, split_bytes);
  layout.rate = rate_of(list, shares, ranks);
  return layout;
}

Layout lay_out(const MachinePlan& plan, const Members& members, const std::vector<Ranks>& ranks,
               std::uint64_t split_bytes) {
  Layout layout = Layouter(plan, members, ranks).run(split_bytes);
  // The plan counts one gradient for each worker.
  std::size_t largest = 1;
  for (const Ranks& here : ranks) largest = std::max(largest, here.size());
  plan::Routes routes(plan.file.network);
  const plan::ClassLoad load = plan::evaluate(routes, plan.of().classes.back());
  if (load.tau > 0) {
    layout.rate = static_cast<std::uint64_t>(1 / (load.tau * static_cast<double>(largest)));
  }
  layout.buffers = buffers_of(layout, plan.of());
  return layout;
}

}  // namespace tally::control
