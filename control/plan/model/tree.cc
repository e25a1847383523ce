#include "control/plan/model/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tally::plan {
namespace {

Error bad_parent(std::string_view name, std::size_t id, std::int32_t parent,
                 std::string_view what) {
  return Error{Status::kInvalidArgument, fmt::format("{}[{}] = {}: {}", name, id, parent, what)};
}

// Checks each parent by itself, and that there is one root. Returns the root, or an error.
Result<VertexId> check_parents(std::span<const std::int32_t> parents, std::string_view name) {
  std::size_t root = parents.size();
  for (std::size_t id = 0; id < parents.size(); ++id) {
    const std::int32_t parent = parents[id];
    if (parent == kIsAbsent) continue;
    if (parent == kIsRoot) {
      if (root != parents.size()) {
        return bad_parent(name, id, parent,
                          fmt::format("{} is the root already; a tree has one", root));
      }
      root = id;
    } else if (parent < 0 || static_cast<std::size_t>(parent) >= parents.size()) {
      return bad_parent(name, id, parent,
                        fmt::format("must be a worker or helper, 0 to {}, or -1 for the root, or "
                                    "-2 where it is not in the tree",
                                    parents.size() - 1));
    } else if (parents[static_cast<std::size_t>(parent)] == kIsAbsent) {
      return bad_parent(name, id, parent, "its parent is not in the tree");
    }
  }
  if (root == parents.size()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: no root; one of its entries must be -1", name)};
  }
  return static_cast<VertexId>(root);
}

}  // namespace

std::string_view duty_name(Duty duty) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "none", "leaf worker", "inner worker", "inner helper", "relay", "root worker", "root helper"};
  return kNames[static_cast<std::size_t>(duty)];
}

Result<Shape> Shape::of(std::span<const std::int32_t> parents, std::string_view name) {
  const auto root = check_parents(parents, name);
  if (!root) return root.error();
  Shape shape;
  shape.first_.assign(parents.size() + 1, 0);
  std::size_t present = 1;
  for (const std::int32_t parent : parents) {
    if (parent < 0) continue;
    ++shape.first_[static_cast<std::size_t>(parent) + 1];
    ++present;
  }
  std::partial_sum(shape.first_.begin(), shape.first_.end(), shape.first_.begin());
  shape.children_.resize(present - 1);
  std::vector<std::uint32_t> next(shape.first_.begin(), shape.first_.end() - 1);
  for (std::size_t id = 0; id < parents.size(); ++id) {
    if (parents[id] < 0) continue;
    shape.children_[next[static_cast<std::size_t>(parents[id])]++] = static_cast<VertexId>(id);
  }
  shape.depths_.assign(parents.size(), kAbsent);
  shape.heights_.assign(parents.size(), 0);
  shape.depths_[*root] = 0;
  shape.order_ = {*root};
  for (std::size_t at = 0; at < shape.order_.size(); ++at) {
    const VertexId id = shape.order_[at];
    for (const VertexId child : shape.children(id)) {
      shape.depths_[child] = shape.depths_[id] + 1;
      shape.order_.push_back(child);
    }
  }
  if (shape.order_.size() != present) {  // some vertices cannot be reached from the root
    std::size_t lost = 0;
    while (parents[lost] < 0 || shape.depths_[lost] != kAbsent) ++lost;
    return bad_parent(name, lost, parents[lost], "goes in a circle and never reaches the root");
  }
  for (auto at = shape.order_.rbegin(); at != shape.order_.rend(); ++at) {
    if (parents[*at] < 0) continue;
    std::uint32_t& above = shape.heights_[static_cast<std::size_t>(parents[*at])];
    above = std::max(above, shape.heights_[*at] + 1);
  }
  return shape;
}

Duty Shape::duty(VertexId id, bool is_worker) const {
  if (!has(id)) return Duty::kNone;
  if (id == root()) return is_worker ? Duty::kRootWorker : Duty::kRootHelper;
  if (is_worker) return children(id).empty() ? Duty::kLeafWorker : Duty::kInnerWorker;
  return children(id).size() == 1 ? Duty::kRelay : Duty::kInnerHelper;
}

Parents star_parents(std::size_t machines, std::span<const VertexId> members, VertexId root) {
  Parents parents(machines, kIsAbsent);
  for (const VertexId member : members) parents[member] = static_cast<std::int32_t>(root);
  parents[root] = kIsRoot;
  return parents;
}

}  // namespace tally::plan
