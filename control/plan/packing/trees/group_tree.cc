#include "control/plan/packing/trees/group_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace tally::plan {
namespace {

// The parts of a growing forest, by group. The machines of a group are loose, each a part of its
// own, until the first edges join all of them at once.
class Forest {
 public:
  explicit Forest(const Counts& counts) : counts_(counts), above_(counts.size()) {
    std::iota(above_.begin(), above_.end(), std::size_t{0});
    for (const std::size_t count : counts) {
      loose_.push_back(count > 1);
      parts_ += count;
    }
  }

  std::size_t parts() const { return parts_; }
  bool is_loose(std::size_t group) const { return loose_[group]; }

  // Joins all machines of both groups, which may be one. Returns the number of edges.
  std::size_t join(std::size_t a, std::size_t b) {
    const std::size_t before = parts_;
    for (const std::size_t group : {a, b}) {
      if (!loose_[group]) continue;
      loose_[group] = false;
      parts_ -= counts_[group] - 1;
    }
    const std::size_t from = part_of(a), to = part_of(b);
    if (from != to) {
      above_[from] = to;
      --parts_;
    }
    return before - parts_;
  }

  std::size_t part_of(std::size_t group) {
    while (above_[group] != group) group = above_[group] = above_[above_[group]];
    return group;
  }

 private:
  const Counts& counts_;
  std::vector<std::size_t> above_;
  std::vector<bool> loose_;
  std::size_t parts_ = 0;
};

}  // namespace

GroupTree::GroupTree(const Symmetry& symmetry, const Square& prices) : symmetry_(symmetry) {
  for (std::size_t a = 0; a < symmetry.groups.size(); ++a) {
    for (std::size_t b = a; b < symmetry.groups.size(); ++b) {
      if (a == b && symmetry.groups[a].machines.size() < 2) continue;
      if (prices.at(a, b) < std::numeric_limits<double>::infinity()) {
        pairs_.push_back({prices.at(a, b), a, b});
      }
    }
  }
  std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) {
    return std::tie(a.price, a.a, a.b) < std::tie(b.price, b.a, b.b);
  });
}

double GroupTree::price(const Counts& counts) const {
  Forest forest(counts);
  double price = 0;
  for_each_pair(counts, [&](const Pair& pair) {
    if (forest.parts() <= 1) return false;
    price += static_cast<double>(forest.join(pair.a, pair.b)) * pair.price;
    return true;
  });
  return forest.parts() <= 1 ? price : std::numeric_limits<double>::infinity();
}

std::vector<TreeEdge> GroupTree::edges(const Counts& counts) const {
  std::vector<TreeEdge> edges;
  Forest forest(counts);
  const auto machine = [&](std::size_t group, std::size_t i) {
    return symmetry_.groups[group].machines[i];
  };
  // Joins the machines of group `a` from the i-th on to the first machine of group `b`.
  const auto join = [&](std::size_t a, std::size_t i, std::size_t b) {
    for (; i < counts[a]; ++i) edges.push_back({machine(a, i), machine(b, 0)});
  };
  for_each_pair(counts, [&](const Pair& pair) {
    if (forest.parts() <= 1) return false;
    const auto& [price, a, b] = pair;
    const bool a_is_loose = forest.is_loose(a), b_is_loose = forest.is_loose(b);
    if (forest.join(a, b) == 0) return true;
    if (a == b) {
      join(a, 1, a);
    } else if (a_is_loose) {
      join(a, 0, b);
      if (b_is_loose) join(b, 1, a);
    } else if (b_is_loose) {
      join(b, 0, a);
    } else {
      edges.push_back({machine(a, 0), machine(b, 0)});
    }
    return true;
  });
  return edges;
}

double GroupTree::price_of_joins() const {
  Counts all;
  for (const Group& group : symmetry_.groups) all.push_back(group.machines.size());
  Forest forest(all);
  // By part's group: whether it has a worker. Loose workers are parts with workers each.
  std::vector<bool> has_worker;
  for (const Group& group : symmetry_.groups) has_worker.push_back(group.is_worker);
  double price = 0;
  for_each_pair(all, [&](const Pair& pair) {
    const auto& [edge, a, b] = pair;
    // The parts with workers among those that this edge joins.
    const auto parts_of = [&](std::size_t group) -> std::size_t {
      if (forest.is_loose(group)) return symmetry_.groups[group].is_worker ? all[group] : 0;
      return has_worker[forest.part_of(group)] ? 1 : 0;
    };
    const std::size_t parts = parts_of(a) + (a == b ? 0 : parts_of(b));
    const bool with_worker = parts > 0;
    if (forest.join(a, b) == 0) return true;
    if (parts > 1) price += edge * static_cast<double>(parts - 1);
    if (with_worker) has_worker[forest.part_of(a)] = true;
    return true;
  });
  return price;
}

}  // namespace tally::plan
