#include "control/coordinator/layout/substitutes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace tally::control {
namespace {

using plan::Shape;
using plan::VertexId;

// The tree's weight in the class of the largest operations that it carries. A way of results has
// that of its sums.
std::uint64_t weight_of(const MachinePlan& plan, const FileTrees& found, std::size_t tree) {
  if (found.trees[tree].sums != kNoFileTree) tree = found.trees[tree].sums;
  for (std::size_t i = plan.of().classes.size(); i-- > 0;) {
    const auto& here = found.by_class[i];
    const auto at = std::find(here.begin(), here.end(), tree);
    if (at == here.end()) continue;
    return plan.of().classes[i].trees[static_cast<std::size_t>(at - here.begin())].weight;
  }
  return 0;
}

// Edges of the tree at the machine. Each edge carries the tree's bytes, up and down, or one way
// where the results go another way.
std::uint64_t edges_at(const Shape& shape, VertexId id) {
  return shape.children(id).size() + (shape.root() == id ? 0 : 1);
}

class Finder {
 public:
  Finder(const MachinePlan& plan, const FileTrees& found, const Members& known)
      : plan_(plan), found_(found), known_(known) {
    for (const auto& [node, member] : known) {
      if (!member.draining) load_[node] = 0;
    }
  }

  Result<Seats> run() {
    seats_.by_tree.resize(found_.trees.size());
    for (std::size_t tree = 0; tree < found_.trees.size(); ++tree) seat_own(tree);
    for (std::size_t tree = 0; tree < found_.trees.size(); ++tree) {
      for (const VertexId id : found_.trees[tree].shape.order()) {
        if (!sums(found_.trees[tree].shape, id) || seats_.by_tree[tree].contains(id)) continue;
        if (const auto done = seat_substitute(tree, id); !done) return done.error();
      }
    }
    for (auto& [node, machines] : seats_.stands_in_for) {
      std::sort(machines.begin(), machines.end());
      machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
    }
    return std::move(seats_);
  }

 private:
  void seat_own(std::size_t tree) {
    const Shape& shape = found_.trees[tree].shape;
    const std::uint64_t weight = weight_of(plan_, found_, tree);
    for (const VertexId id : shape.order()) {
      const auto* member = member_of(plan_, known_, id);
      if (member == nullptr || member->second.draining) continue;
      load_[member->first] += weight * edges_at(shape, id);
      if (sums(shape, id)) seats_.by_tree[tree][id] = member->first;
    }
  }

  Outcome seat_substitute(std::size_t tree, VertexId id) {
    auto& seats = seats_.by_tree[tree];
    const FileTree& way = found_.trees[tree];
    const bool is_root = id == way.shape.root();
    // One node has the roots of both ways.
    if (is_root && way.sums != kNoFileTree) {
      seats[id] = seats_.by_tree[way.sums].at(id);
      return Unit{};
    }
    const auto sums_in = [&](std::size_t other, NodeId node) {
      return std::any_of(seats_.by_tree[other].begin(), seats_.by_tree[other].end(),
                         [&](const auto& seat) { return seat.second == node; });
    };
    const auto sums_here = [&](NodeId node) {
      return sums_in(tree, node) ||
             (is_root && way.results != kNoFileTree && sums_in(way.results, node));
    };
    auto best = load_.end();
    std::string why;
    for (auto one = load_.begin(); one != load_.end(); ++one) {
      const Member& member = known_.at(one->first);
      if (sums_here(one->first)) {
        why += fmt::format("; \"{}\" sums in it already", member.name);
      } else if (has_lost_rails(member)) {
        why += fmt::format("; \"{}\" has lost a NIC", member.name);
      } else if (best == load_.end() || one->second < best->second) {
        best = one;
      }
    }
    if (best == load_.end()) return nobody(id, why);
    best->second += weight_of(plan_, found_, tree) * edges_at(found_.trees[tree].shape, id);
    seats[id] = best->first;
    seats_.stands_in_for[best->first].push_back(id);
    return Unit{};
  }

  Error nobody(VertexId id, const std::string& why) const {
    const std::string& name = plan_.file.network.name_of(id);
    return {Status::kRefused,
            fmt::format("\"{}\" is drained or has left, and no node can stand in for it in a tree "
                        "of the plan{}: start another node, take one back (tallyctl drain --undo), "
                        "or set a plan without \"{}\"",
                        name, why, name)};
  }

  const MachinePlan& plan_;
  const FileTrees& found_;
  const Members& known_;
  std::map<NodeId, std::uint64_t> load_;  // of the nodes that may have trees
  Seats seats_;
};

}  // namespace

Result<Seats> find_seats(const MachinePlan& plan, const FileTrees& found, const Members& known) {
  return Finder(plan, found, known).run();
}

}  // namespace tally::control
