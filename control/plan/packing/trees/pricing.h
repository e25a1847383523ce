// What column generation asks of a network: at given prices of its passages, which trees are cheap,
// and how cheap a tree can be at all.
#pragma once

#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

struct Priced {
  std::vector<Tree> trees;  // cheap ones, the cheapest first; weights are 0
  // No tree up and down has a lower price, if its height is not limited.
  double least = 0;
  bool is_exact = false;  // a tree of any height has this price
};

class Pricing {
 public:
  virtual ~Pricing() = default;
  // prices: by passage, at least 0. Errors: no tree joins all workers.
  virtual Result<Priced> price(const std::vector<double>& prices) = 0;
};

}  // namespace tally::plan
