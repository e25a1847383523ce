// Groupings that may be the best, for more workers than can be enumerated.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tally::plan::groups {

// The begin of each group but the first, ascending, as places in the order of workers.
using Borders = std::vector<std::size_t>;

struct Candidates {
  std::size_t workers = 0;
  std::size_t most_groups = 0;
  double staleness = 0;
  // The least seconds between exchanges of the workers first to end - 1.
  std::function<double(std::size_t first, std::size_t end)> period;
};

// Calls visit() with groupings. For a price of an exchange and a longest period, a dynamic program
// over (workers, groups) finds the most samples per second less the price of all exchanges, for
// each number of groups. A longest period counts because the staleness bounds the rate of all
// exchanges by that of the slowest group. O(N^3) for each of some hundred pairs of prices and
// periods, where N is the number of workers.
void each_candidate(const Candidates& candidates, const std::function<void(const Borders&)>& visit);

}  // namespace tally::plan::groups
