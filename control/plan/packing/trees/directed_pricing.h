// Prices pairs of trees, one for sums and one for results, in any network.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "control/plan/packing/places/problem.h"
#include "control/plan/packing/trees/arborescence.h"
#include "control/plan/packing/trees/pricing.h"

namespace tally::plan {

// Whether results may go back another way than the sums came (Tree::down). Nodes do not serve such
// trees (served.h), so this is for comparisons.
enum class WayDown { kSameWay, kAnyWay };

// Returns the prices of the edges from children to parents, for sums (up) or results; infinity
// where there is no route. prices: by passage.
Square edge_prices(const Passages& passages, const std::vector<double>& prices, bool up);

class DirectedPricing : public Pricing {
 public:
  // `problem` must outlive this object, and has no symmetry.
  DirectedPricing(const Problem& problem, std::uint32_t max_height, WayDown way);

  // Returns a tree for each root that can have one. The least price is that of the best pair of
  // trees, whatever `way` is. Exact with few helpers: it tries all sets of them. Otherwise it tries
  // the roots that are cheapest with no helper or all, and adds and drops helpers one by one. The
  // least price is then a lower bound for both ways, by GroupTree::price_of_joins().
  Result<Priced> price(const std::vector<double>& prices) override;

  bool is_exact() const { return tries_all_; }

 private:
  std::optional<Arborescence> best_tree(const Square& prices, VertexId root) const;
  std::optional<Arborescence> descend(const Square& prices, VertexId root,
                                      std::vector<bool> in) const;
  Tree make_tree(Arborescence up, Arborescence down, const Square& up_prices,
                 const Square& down_prices) const;
  std::vector<VertexId> roots_to_try(const Square& up, const Square& down) const;
  double lower_bound(const Square& prices) const;

  const Problem& problem_;
  std::uint32_t max_height_;
  WayDown way_;
  std::vector<VertexId> helpers_;
  bool tries_all_;
};

}  // namespace tally::plan
