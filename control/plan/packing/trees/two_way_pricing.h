// Prices trees in a network that is the same both ways (is_two_way() of symmetry.h). There a tree's
// price is that of its edges, both ways together, wherever its root is. So the cheapest tree of
// given machines is a minimum spanning tree, and helpers make it a Steiner tree.
#pragma once

#include <cstdint>

#include "control/plan/packing/places/choices.h"
#include "control/plan/packing/places/problem.h"
#include "control/plan/packing/trees/group_tree.h"
#include "control/plan/packing/trees/pricing.h"

namespace tally::plan {

class TwoWayPricing : public Pricing {
 public:
  enum class Helpers : std::uint8_t { kAllSetsIfFew, kOneByOne };

  // max_height: of the trees that price() returns. `problem` must outlive this object.
  TwoWayPricing(const Problem& problem, std::uint32_t max_height,
                Helpers helpers = Helpers::kAllSetsIfFew);

  // Exact when there are few choices of helpers that differ: it tries all, unless told otherwise.
  // Else it adds and drops helpers one by one, and the least price is GroupTree::price_of_joins().
  Result<Priced> price(const std::vector<double>& prices) override;

  bool is_exact() const { return tries_all_; }

 private:
  Square edge_prices(const std::vector<double>& prices) const;
  Counts best_of_all(const GroupTree& tree) const;
  Counts best_nearby(const GroupTree& tree) const;
  Counts descend(const GroupTree& tree, Counts counts) const;

  const Problem& problem_;
  std::uint32_t max_height_;
  bool tries_all_;
};

}  // namespace tally::plan
