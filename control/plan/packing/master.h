// The shares of given trees that keep the busiest row as little busy as possible, and the rows'
// prices that show that no other shares of these trees are better.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "control/plan/packing/places/rows.h"

namespace tally::plan {

struct Mixture {
  double seconds = 0;          // per byte of an operation: what the busiest row needs
  std::vector<double> shares;  // by tree, in the order of add(); they sum to 1
  std::vector<double> prices;  // by row, at least 0; they sum to 1
};

class Master {
 public:
  virtual ~Master() = default;
  virtual Outcome add(const Use& use) = 0;
  // Precondition: at least one tree was added.
  virtual Result<Mixture> mix() = 0;
};

// Solves a linear program by Clp, each time from the solution before. unit: seconds per byte near
// those of good plans. Errors: as those of lp::ColumnProgram.
Result<std::unique_ptr<Master>> make_lp_master(std::size_t rows, double unit);

// Needs no library. Both sides of the game follow multiplicative weights: a row that was busy
// becomes dearer, and a tree that was dear becomes smaller (Freund and Schapire, "Adaptive game
// playing using multiplicative weights", 1999; optimistic steps: Rakhlin and Sridharan, 2013). The
// means of their steps converge. So shares and prices are not exact: with these shares the busiest
// row needs Mixture::seconds, and with these prices a tree may be up to about `gap` cheaper.
std::unique_ptr<Master> make_weights_master(std::size_t rows, double gap);

}  // namespace tally::plan
