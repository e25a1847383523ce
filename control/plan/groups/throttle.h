// How often each group exchanges with the parameter server. A server that is too slow for all
// groups, or a bound of the staleness, leaves groups waiting.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace tally::plan::groups {

// A group as the server has it.
struct Exchange {
  double period = 0;   // least seconds from one exchange to the next
  double samples = 0;  // that the workers of the group take in between
};

struct Rates {
  std::vector<double> rates;  // exchanges per second, by group
  double throughput = 0;      // samples per second
};

// Returns the rates of the highest throughput such that
// - no group exchanges more often than its period allows;
// - all groups together exchange at most `most` times per second;
// - between two exchanges of a group there are at most `staleness` of the others, on average.
// Nothing when there are more than 1 + staleness groups, because then no rates meet the last
// condition. Of groups with as many samples, the first goes first. O(G log G) for G groups.
//
// Why it is the highest: let R be the sum of the rates. The last condition says that each rate is
// at least R / (1 + staleness). For a given R the best is to give each group this least rate, and
// the rest to the groups with the most samples: a fractional knapsack. More R never lowers the
// throughput, because the least rates of all other groups grow by no more than R does. So R is as
// large as the conditions allow.
std::optional<Rates> throttle(std::span<const Exchange> groups, double most, double staleness);

}  // namespace tally::plan::groups
