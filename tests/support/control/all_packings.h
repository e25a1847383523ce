// The best packing of all trees of a small network, by one linear program over all of them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "base/lp/lp.h"
#include "control/plan/model/passages.h"
#include "tests/support/control/all_trees.h"

namespace tally::plan {

// Returns the seconds per byte of the best shares of all pairs of a tree up and a tree down with
// one root; any_way: the tree down may differ from the tree up. 0 when there is no tree.
inline double best_of_all_packings(const Network& network, const std::vector<VertexId>& workers,
                                   bool any_way) {
  Routes routes(network);
  const Passages passages(routes);
  const std::size_t machines = network.machines();
  lp::Program program;
  const std::size_t tau = 0;
  program.variables.push_back({1});
  program.rows.push_back({{}, 1, 1});  // the shares' sum
  double unit = 0;                     // the slowest passage
  for (std::size_t i = 0; i < passages.size(); ++i) {
    unit = i == 0 ? passages.capacity(0) : std::min(unit, passages.capacity(i));
  }
  for (std::size_t i = 0; i < passages.size(); ++i) {
    program.rows.push_back({{{tau, -passages.capacity(i) / unit}}, -lp::kUnlimited, 0});
  }
  const auto has_routes = [&](const Parents& parents, bool up) {
    for (VertexId child = 0; child < machines; ++child) {
      if (parents[child] < 0) continue;
      const auto parent = static_cast<VertexId>(parents[child]);
      if (up ? !routes.has(child, parent) : !routes.has(parent, child)) return false;
    }
    return true;
  };
  // A variable for each tree one way. The trees up of a root have the same share as those down.
  std::map<VertexId, std::size_t> balance;  // by root: the row that says so
  const auto add = [&](const Parents& parents, VertexId root, bool up, bool down) {
    if ((up && !has_routes(parents, true)) || (down && !has_routes(parents, false))) return;
    std::vector<double> bytes(passages.size());
    if (up) passages.add(parents, true, 1, bytes);
    if (down) passages.add(parents, false, 1, bytes);
    const std::size_t variable = program.variables.size();
    program.variables.emplace_back();
    if (up) program.rows[0].terms.push_back({variable, 1});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] > 0) program.rows[i + 1].terms.push_back({variable, bytes[i]});
    }
    if (up != down) program.rows[balance[root]].terms.push_back({variable, up ? 1.0 : -1.0});
  };
  for (VertexId root = 0; root < machines; ++root) {
    if (any_way) {
      balance[root] = program.rows.size();
      program.rows.push_back({{}, 0, 0});
    }
    for_each_member_set(machines, workers, [&](const std::vector<VertexId>& members) {
      if (std::find(members.begin(), members.end(), root) == members.end()) return;
      for_each_rooted_tree(machines, members, root, [&](const Parents& parents) {
        if (any_way) {
          add(parents, root, true, false);
          add(parents, root, false, true);
        } else {
          add(parents, root, true, true);
        }
      });
    });
  }
  const auto solution = lp::minimize(program);
  return solution.ok() && solution->answer == lp::Answer::kOptimal ? solution->values[tau] / unit
                                                                   : 0;
}

}  // namespace tally::plan
