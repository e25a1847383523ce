// The cheapest tree over chosen machines, by Kruskal's algorithm on groups of alike machines.
#pragma once

#include <utility>
#include <vector>

#include "control/plan/least_cost/square.h"
#include "control/plan/model/network.h"
#include "control/plan/packing/places/choices.h"
#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {

struct TreeEdge {
  VertexId a = 0;
  VertexId b = 0;
};

class GroupTree {
 public:
  // prices: of an edge between machines of two groups, or of one (the diagonal); infinity where no
  // edge can be. `symmetry` must outlive this object. O(groups squared x log groups).
  GroupTree(const Symmetry& symmetry, const Square& prices);

  // The price of the cheapest tree over these machines; infinity when there is none. O(groups
  // squared), most of it in the order of the edges' prices.
  double price(const Counts& counts) const;

  // Returns the edges of a cheapest tree over the first machines of each group. Of the machines of
  // a group, one has the edges to other groups wherever possible, so the tree is flat.
  // Precondition: price(counts) is finite.
  std::vector<TreeEdge> edges(const Counts& counts) const;

  // Returns a price that no tree is below, whatever machines it has beside the workers. Only edges
  // count that join two parts with workers.
  double price_of_joins() const;

 private:
  struct Pair {
    double price = 0;
    std::size_t a = 0;
    std::size_t b = 0;
  };

  // Calls join(pair) for the pairs of present groups in the order of their prices, until it returns
  // false.
  template <typename Join>
  void for_each_pair(const Counts& counts, Join join) const {
    for (const Pair& pair : pairs_) {
      if (counts[pair.a] == 0 || counts[pair.b] == 0) continue;
      if (!join(pair)) return;
    }
  }

  const Symmetry& symmetry_;
  std::vector<Pair> pairs_;  // by ascending price
};

}  // namespace tally::plan
