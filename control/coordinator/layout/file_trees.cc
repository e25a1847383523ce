#include "control/coordinator/layout/file_trees.h"

#include <algorithm>
#include <string>

namespace tally::control {

using plan::Shape;
using plan::VertexId;

namespace {

// The way of the tree's results; nullptr when it is that of the sums.
const plan::Parents* results_of(const plan::Tree& tree) {
  return tree.has_other_way() ? &tree.down : nullptr;
}

bool same_way(const plan::Parents* one, const plan::Parents* other) {
  return one == other || (one != nullptr && other != nullptr && *one == *other);
}

}  // namespace

FileTrees trees_of(const MachinePlan& plan) {
  FileTrees found;
  std::vector<const plan::Parents*> results;  // by tree
  for (const plan::SizeClass& one : plan.of().classes) {
    auto& indices = found.by_class.emplace_back();
    for (const plan::Tree& tree : one.trees) {
      std::size_t at = 0;
      while (at < results.size() &&
             !(*found.trees[at].parents == tree.up && same_way(results[at], results_of(tree)))) {
        ++at;
      }
      if (at == results.size()) {
        found.trees.push_back({&tree.up, Shape::of(tree.up, "up").value()});
        results.push_back(results_of(tree));
      }
      found.trees[at].least = std::min(found.trees[at].least, tree.weight);
      indices.push_back(at);
    }
  }
  for (std::size_t at = 0; at < results.size(); ++at) {
    if (results[at] == nullptr) continue;
    found.trees[at].results = found.trees.size();
    found.trees.push_back({results[at], Shape::of(*results[at], "down").value(),
                           found.trees[at].least, kNoFileTree, at});
  }
  return found;
}

bool sums(const Shape& shape, VertexId id) {
  return shape.has(id) && (shape.root() == id || !shape.children(id).empty());
}

std::uint32_t trees_at(const FileTrees& found, VertexId id) {
  return static_cast<std::uint32_t>(
      std::count_if(found.trees.begin(), found.trees.end(),
                    [&](const FileTree& tree) { return sums(tree.shape, id); }));
}

const std::pair<const NodeId, Member>* member_of(const MachinePlan& plan, const Members& members,
                                                 VertexId machine) {
  const std::string& name = plan.file.network.vertices[machine].name;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& one) { return one.second.name == name; });
  return found == members.end() ? nullptr : &*found;
}

bool has_lost_rails(const Member& member) {
  return member.usable_shards() < member.shards;
}

}  // namespace tally::control
