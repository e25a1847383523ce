#include "control/plan/packing/few_trees.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tally::plan {
namespace {

constexpr double kSteepest = 20;  // so that each row has a price (Rows::passage_prices())

}  // namespace

Result<Selection> few_trees(const Problem& problem, Pricing& pricing, std::size_t count,
                            double seconds, bool use_lp) {
  Selection few;
  std::vector<Use> uses;
  std::vector<double> busy(problem.rows().size(), 0);  // in units of `seconds`; in the end about 1
  std::vector<double> prices(busy.size());
  for (std::size_t i = 0; i < count; ++i) {
    const double most = *std::max_element(busy.begin(), busy.end());
    std::transform(busy.begin(), busy.end(), prices.begin(),
                   [&](double one) { return std::exp(std::max(one - most, -kSteepest)); });
    auto priced = pricing.price(problem.rows().passage_prices(prices));
    if (!priced) return priced.error();
    few.trees.push_back(std::move(priced->trees.front()));
    uses.push_back(problem.rows().use_of(few.trees.back()));
    for (const RowUse& one : uses.back()) {
      busy[one.row] += one.seconds / seconds / static_cast<double>(count);
    }
  }
  auto mixed = mix(problem, uses, seconds, use_lp);
  if (!mixed) return mixed.error();
  few.shares = std::move(mixed->shares);
  few.seconds = mixed->seconds;
  return few;
}

}  // namespace tally::plan
