// All trees over a few vertices, for tests that compare a search with every possibility.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "control/plan/least_cost/square.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// Calls visit(parents) for every tree over `members` with this root: each member but the root has a
// parent among the members, without a circle. Other machines are absent. There are n^(n-2).
template <typename Visit>
void for_each_rooted_tree(std::size_t machines, const std::vector<VertexId>& members, VertexId root,
                          Visit visit) {
  std::vector<VertexId> others;
  for (const VertexId member : members) {
    if (member != root) others.push_back(member);
  }
  const auto reaches_root = [&](const Parents& parents, VertexId at) {
    for (std::size_t hops = 0; hops <= members.size(); ++hops) {
      if (at == root) return true;
      at = static_cast<VertexId>(parents[at]);
    }
    return false;
  };
  std::size_t choices = 1;
  for (std::size_t i = 0; i < others.size(); ++i) choices *= members.size();
  for (std::size_t choice = 0; choice < choices; ++choice) {
    Parents parents(machines, kIsAbsent);
    parents[root] = kIsRoot;
    std::size_t rest = choice;
    bool is_tree = true;
    for (const VertexId other : others) {
      const VertexId parent = members[rest % members.size()];
      rest /= members.size();
      is_tree = is_tree && parent != other;
      parents[other] = static_cast<std::int32_t>(parent);
    }
    for (const VertexId other : others) is_tree = is_tree && reaches_root(parents, other);
    if (is_tree) visit(parents);
  }
}

// Calls visit(members) for the workers with every set of the other machines.
template <typename Visit>
void for_each_member_set(std::size_t machines, const std::vector<VertexId>& workers, Visit visit) {
  std::vector<VertexId> helpers;
  std::vector<bool> is_worker(machines, false);
  for (const VertexId worker : workers) is_worker[worker] = true;
  for (VertexId id = 0; id < machines; ++id) {
    if (!is_worker[id]) helpers.push_back(id);
  }
  for (std::size_t set = 0; (set >> helpers.size()) == 0; ++set) {
    std::vector<VertexId> members = workers;
    for (std::size_t i = 0; i < helpers.size(); ++i) {
      if (((set >> i) & 1) != 0) members.push_back(helpers[i]);
    }
    visit(members);
  }
}

// Returns costs of edges: whole numbers below `limit`, and a fifth of the edges cannot be.
inline Square random_costs(std::mt19937& random, std::size_t size, unsigned limit) {
  Square costs(size, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      if (random() % 5 != 0) costs.at(i, j) = static_cast<double>(random() % limit);
    }
  }
  return costs;
}

}  // namespace tally::plan
