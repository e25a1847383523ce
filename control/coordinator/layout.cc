#include "control/coordinator/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "control/coordinator/homes.h"
#include "control/coordinator/shares.h"
#include "control/coordinator/slots.h"
#include "control/plan/load.h"
#include "control/plan/served.h"
#include "control/plan/tree.h"

namespace tally::control {
namespace {

using plan::Shape;
using plan::VertexId;
using protocol::kMaxTrees;
using protocol::Vertex;
using Ranks = std::vector<std::uint16_t>;

static_assert(plan::kServedTrees == kMaxTrees);
static_assert(plan::kServedClasses + 1 == protocol::kMaxClasses);  // one for what is not divided

Error refused(std::string message) {
  return Error{Status::kRefused, std::move(message)};
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  }
  return text;
}

// A tree of the file, wherever it is a tree of: classes may share one.
struct FileTree {
  const plan::Parents* up;
  Shape shape;
  std::uint32_t least = plan::kWeightUnit;  // of its weights: no more copies than that
};

struct FileTrees {
  std::vector<FileTree> trees;
  std::vector<std::vector<std::size_t>> by_class;  // of each class's trees: which of them
};

FileTrees trees_of(const MachinePlan& plan) {
  FileTrees found;
  for (const plan::SizeClass& one : plan.of().classes) {
    auto& indices = found.by_class.emplace_back();
    for (const plan::Tree& tree : one.trees) {
      auto same = std::find_if(found.trees.begin(), found.trees.end(),
                               [&](const FileTree& other) { return *other.up == tree.up; });
      if (same == found.trees.end()) {
        found.trees.push_back({&tree.up, Shape::of(tree.up, "up").value()});
        same = found.trees.end() - 1;
      }
      same->least = std::min(same->least, tree.weight);
      indices.push_back(static_cast<std::size_t>(same - found.trees.begin()));
    }
  }
  return found;
}

// A machine that sums: all but workers that are leaves.
bool sums(const Shape& shape, VertexId id) {
  return shape.has(id) && (shape.root() == id || !shape.children(id).empty());
}

const std::pair<const NodeId, Member>* member_of(const MachinePlan& plan, const Members& members,
                                                 VertexId machine) {
  const std::string& name = plan.file.network.vertices[machine].name;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& one) { return one.second.name == name; });
  return found == members.end() ? nullptr : &*found;
}

// How many trees of the file sum there.
std::uint32_t trees_at(const FileTrees& found, VertexId id) {
  return static_cast<std::uint32_t>(
      std::count_if(found.trees.begin(), found.trees.end(),
                    [&](const FileTree& tree) { return sums(tree.shape, id); }));
}

bool has_lost_rails(const Member& member) {
  return member.usable_shards() < member.shards;
}

class Layouter {
 public:
  Layouter(const MachinePlan& plan, const Members& members, const std::vector<Ranks>& ranks)
      : plan_(plan), found_(trees_of(plan)), ranks_(plan.file.network.machines()) {
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks_[plan.of().workers[i]] = ranks[i];
    nodes_.resize(ranks_.size());
    const Members usable = without_lost_rails(members);
    for (VertexId id = 0; id < nodes_.size(); ++id) {
      if (const auto* member = member_of(plan, usable, id)) {
        nodes_[id].node = member->first;
        nodes_[id].member = member->second;
      }
    }
  }

  Layout run(std::uint64_t split_bytes) {
    number_trees();
    for (PlanNode& node : nodes_) lanes_.push_back(lanes_of(node));
    add_vertices();
    Layout layout{{trees_, classes(split_bytes)}, {}};
    layout.plan.homes = known_homes(layout.plan, plan_.of().tensors);
    for (PlanNode& node : nodes_) {
      if (!node.trees.empty()) layout.nodes.push_back(std::move(node));
    }
    return layout;
  }

 private:
  // The copies of each tree have numbers that follow each other.
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
          nodes_[id].trees.push_back(tree);
        }
      }
    }
  }

  // By lane: its NIC, and its part of what the node carries. A tree has the NIC of its lane.
  static std::vector<RailTree> lanes_of(PlanNode& node) {
    if (node.trees.empty()) return {};
    auto lanes = over_rails(node.member.rails, node.lanes(), plan::kWeightUnit);
    for (std::size_t i = 0; i < node.trees.size() && !node.member.rails.empty(); ++i) {
      node.rails.push_back(lanes[i % lanes.size()].rail);
    }
    return lanes;
  }

  std::vector<std::uint32_t> copies_of_each() const {
    for (std::uint32_t bound = kMaxTrees;; --bound) {
      std::vector<std::uint32_t> copies;
      for (const FileTree& tree : found_.trees) {
        const std::uint32_t most = std::min(copies_at(tree.shape), bound);
        copies.push_back(std::min(most, tree.least));
      }
      const bool fit = std::accumulate(copies.begin(), copies.end(), 0U) <= kMaxTrees;
      if (fit || bound == 1) return copies;
    }
  }

  // One at each shard of the root. A node has a lane for each shard, or for each tree where these
  // are fewer: where NICs are lost, no more trees than shards of the others.
  std::uint32_t copies_at(const Shape& shape) const {
    std::uint32_t copies = nodes_[shape.root()].member.shards;
    for (const VertexId id : shape.order()) {
      const Member& member = nodes_[id].member;
      if (!sums(shape, id) || !has_lost_rails(member)) continue;
      copies = std::min(copies, std::max(1U, member.usable_shards() / trees_at(found_, id)));
    }
    return copies;
  }

  LaneOf lane_of(VertexId id, std::uint32_t tree) const {
    const PlanNode& node = nodes_[id];
    const auto at = std::find(node.trees.begin(), node.trees.end(), tree) - node.trees.begin();
    return {node.node, static_cast<std::uint32_t>(at) % node.lanes()};
  }

  // The place of a neighbour in the list, where it is put if it is new.
  static std::uint32_t number_in(std::vector<LaneOf>& list, const LaneOf& one) {
    const auto found = std::find(list.begin(), list.end(), one);
    if (found != list.end()) return static_cast<std::uint32_t>(found - list.begin());
    list.push_back(one);
    return static_cast<std::uint32_t>(list.size() - 1);
  }

  void add_vertices() {
    for (std::size_t i = 0; i < found_.trees.size(); ++i) {
      const auto& [up, shape, least] = found_.trees[i];
      // Children before their parents, so that what is below a branch is known.
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
          nodes_[id].vertices.push_back(vertex(shape, (*up)[id], id, tree, below));
        }
      }
    }
  }

  Vertex vertex(const Shape& shape, std::int32_t parent, VertexId id, std::uint32_t tree,
                const std::vector<Ranks>& below) {
    Vertex vertex;
    vertex.tree = tree;
    vertex.height = std::max(1U, shape.height(id));
    vertex.ranks = ranks_[id];
    for (const VertexId child : shape.children(id)) {
      if (!sums(shape, child)) {
        vertex.ranks.insert(vertex.ranks.end(), below[child].begin(), below[child].end());
        continue;
      }
      const auto number = number_in(nodes_[id].below, lane_of(child, tree));
      vertex.branches.push_back({static_cast<std::uint16_t>(number), below[child]});
    }
    std::sort(vertex.ranks.begin(), vertex.ranks.end());
    std::sort(vertex.branches.begin(), vertex.branches.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
    if (parent != plan::kIsRoot) {
      const auto above = lane_of(static_cast<VertexId>(parent), tree);
      vertex.parent = number_in(nodes_[id].above, above);
    }
    return vertex;
  }

  std::vector<protocol::SizeClass> classes(std::uint64_t split_bytes) const {
    std::vector<protocol::SizeClass> classes;
    std::uint64_t next = 0;  // the smallest operation that no class has taken
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
      next = one.max_bytes + 1;
      classes.push_back(std::move(one));
    }
    return classes;
  }

  // The trees of a class, rising, each with its part of the weight.
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
    return protocol::weighted_plan(by_tree, 0).classes.front();
  }

  // A tree's weight over its copies, as their NICs are fast; each has a part.
  std::vector<std::uint32_t> parts_of(std::size_t tree, std::uint32_t weight) const {
    const VertexId root = found_.trees[tree].shape.root();
    std::vector<double> speeds;
    for (std::uint32_t copy = first_[tree]; copy < first_[tree + 1]; ++copy) {
      speeds.push_back(lanes_[root][lane_of(root, copy).lane].weight);
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
  std::vector<Ranks> ranks_;                  // by machine
  std::vector<PlanNode> nodes_;               // by machine
  std::vector<std::vector<RailTree>> lanes_;  // by machine
  std::vector<std::uint32_t> first_;          // of each tree's copies, and the end
  std::uint32_t trees_ = 0;
};

// Precondition: lost NICs are marked.
Outcome check_rails(const MachinePlan& plan, const FileTrees& found, const Members& members) {
  for (VertexId id = 0; id < plan.file.network.machines(); ++id) {
    const auto* member = member_of(plan, members, id);
    if (member == nullptr || !has_lost_rails(member->second)) continue;
    const std::uint32_t trees = trees_at(found, id), shards = member->second.usable_shards();
    if (trees <= shards) continue;
    return refused(
        fmt::format("{} trees of domain \"{}\" sum at node \"{}\", where NICs are down or workers "
                    "do not reach them, and the others have {} shard(s): mend the NICs (tallyctl "
                    "nodes has them), or set a plan of fewer trees there",
                    trees, plan.of().name, member->second.name, shards));
  }
  return Unit{};
}

}  // namespace

Layout star_layout(const Members& members, std::uint32_t ranks, std::uint64_t split_bytes) {
  Layout layout;
  std::vector<Member> list;
  for (const auto& [node, member] : members) list.push_back(member);
  leave_out_lost_rails(list);
  const auto shares = node_shares(list);
  const auto counts = tree_counts(list, shares);
  std::vector<std::uint32_t> weights;  // by tree
  std::size_t i = 0;
  for (const auto& [node, member] : members) {
    const std::uint32_t share = shares[i], count = counts[i];
    const Member& here = list[i++];
    if (count == 0) continue;
    PlanNode& one = layout.nodes.emplace_back();
    one.node = node;
    one.member = here;
    for (const RailTree& rooted : over_rails(here.rails, count, share)) {
      const auto tree = static_cast<std::uint32_t>(weights.size());
      one.trees.push_back(tree);
      if (!here.rails.empty()) one.rails.push_back(rooted.rail);
      one.vertices.push_back(protocol::star(tree, static_cast<std::uint16_t>(ranks)));
      weights.push_back(rooted.weight);
    }
  }
  layout.plan = protocol::weighted_plan(weights, split_bytes);
  layout.rate = rate_of(list, shares, ranks);
  const auto rates = window_rates(list, shares, ranks, layout.rate);
  for (std::size_t at = 0, node = 0; at < rates.size(); ++at) {
    if (counts[at] > 0) layout.nodes[node++].rate = rates[at];
  }
  return layout;
}

Outcome check_layout(const MachinePlan& plan, const Members& members) {
  if (auto served = plan::check_served(plan.file.network, plan.of()); !served) return served;
  const FileTrees found = trees_of(plan);
  if (auto fit = check_rails(plan, found, without_lost_rails(members)); !fit) return fit;
  std::vector<std::string> missing, known;
  std::map<NodeId, VertexId> taken;
  for (VertexId id = 0; id < plan.file.network.machines(); ++id) {
    if (trees_at(found, id) == 0) continue;
    const auto* member = member_of(plan, members, id);
    if (member == nullptr) {
      missing.push_back(plan.file.network.name_of(id));
    } else if (const auto [other, first] = taken.emplace(member->first, id); !first) {
      return refused(
          fmt::format("nodes[{}] and nodes[{}] both sum, and both have \"addr\": \"{}\"; "
                      "a node is one machine of a plan",
                      other->second, id, member->second.name));
    }
  }
  if (missing.empty()) return Unit{};
  for (const auto& [node, member] : members) known.push_back(member.name);
  return refused(
      fmt::format("the plan sums at machines that are no members: {}; \"addr\" is a node's "
                  "cluster.name. Members are: {}",
                  quoted(missing), known.empty() ? "none" : quoted(known)));
}

bool asks_for_hosts(const MachinePlan& plan) {
  const FileTrees found = trees_of(plan);
  return std::any_of(found.trees.begin(), found.trees.end(),
                     [](const FileTree& tree) { return tree.shape.depth() > 1; });
}

Result<std::vector<Ranks>> ranks_of_workers(const MachinePlan& plan, const Members& members,
                                            const std::vector<std::string>& hosts) {
  const auto& workers = plan.of().workers;
  std::vector<Ranks> by_worker(workers.size());
  bool told = true;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    std::size_t matches = 0, at = 0;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const auto* member = member_of(plan, members, workers[i]);
      const bool here = (member != nullptr && member->second.host == hosts[rank]) ||
                        plan.file.network.vertices[workers[i]].name == hosts[rank];
      if (here) at = i;
      matches += here ? 1 : 0;
    }
    told &= matches == 1;
    if (matches == 1) by_worker[at].push_back(static_cast<std::uint16_t>(rank));
  }
  told &=
      std::none_of(by_worker.begin(), by_worker.end(), [](const auto& all) { return all.empty(); });
  if (told) return by_worker;
  if (hosts.size() != workers.size()) {
    return refused(
        fmt::format("the plan's domain \"{}\" has {} workers and the job {} ranks, and the ranks' "
                    "hosts do not say who is where (rank 0 is on \"{}\"): each must be the host "
                    "or the name of one worker's node, and each worker have a rank; or take as "
                    "many ranks as workers",
                    plan.of().name, workers.size(), hosts.size(), hosts.empty() ? "" : hosts[0]));
  }
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    by_worker[rank] = {static_cast<std::uint16_t>(rank)};
  }
  return by_worker;
}

Layout lay_out(const MachinePlan& plan, const Members& members, const std::vector<Ranks>& ranks,
               std::uint64_t split_bytes) {
  Layout layout = Layouter(plan, members, ranks).run(split_bytes);
  // The plan counts one gradient for each worker.
  std::size_t largest = 1;
  for (const Ranks& here : ranks) largest = std::max(largest, here.size());
  plan::Routes routes(plan.file.network);
  const double tau = plan::evaluate(routes, plan.of().classes.back()).tau;
  if (tau > 0) layout.rate = static_cast<std::uint64_t>(1 / (tau * static_cast<double>(largest)));
  return layout;
}

}  // namespace tally::control
