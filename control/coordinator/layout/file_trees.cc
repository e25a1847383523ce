#include "control/coordinator/layout/file_trees.h"

#include <algorithm>
#include <string>

namespace tally::control {

using plan::Shape;
using plan::VertexId;

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
