// What limits a packing of trees, in rows: passages that carry the same bytes in a plan that is
// even over all places that can change places (symmetry.h). A packing is then a matrix game. Each
// tree is a column: by row, the seconds per byte that the row's passages need for it. The packing
// chooses shares of the trees such that the busiest row is as little busy as possible.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "control/plan/model/passages.h"
#include "control/plan/model/plan.h"
#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {

struct RowUse {
  std::size_t row = 0;
  double seconds = 0;  // per byte of the tree
};
using Use = std::vector<RowUse>;  // by ascending row; rows without bytes are left out

class Rows {
 public:
  // two_way: the trees' results go back the way that the sums came, so both directions of a link
  // are one row.
  Rows(const Passages& passages, const Symmetry& symmetry, bool two_way);

  std::size_t size() const { return capacities_.size(); }
  // Bytes per second of all passages of the row together.
  double capacity(std::size_t row) const { return capacities_[row]; }

  // The use of a tree whose shares are divided evenly over all places that it could have.
  Use use_of(const Tree& tree) const;

  // Returns the price of each passage when each row has a price, so that (sum of capacity x price)
  // over a row's passages is the row's price. Prices are multiples of a power of two, so sums of a
  // few of them are exact in any order. Precondition: no price is below 0, one is above.
  std::vector<double> passage_prices(std::span<const double> prices) const;

 private:
  static constexpr std::uint32_t kNoRow = UINT32_MAX;  // other rows always limit more

  const Passages& passages_;
  std::vector<std::uint32_t> row_of_;  // by passage
  std::vector<double> capacities_;
};

}  // namespace tally::plan
