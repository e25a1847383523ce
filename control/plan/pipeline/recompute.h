// Which blocks of a stage are recomputed in the backward pass instead of kept in memory. Two
// knapsacks: the least time that saves enough memory, and the most memory for a limited time.
//
// Method: lists of pairs (time, memory) that no other pair beats in both, by Nemhauser and Ullmann
// (Management Science 1969). It is exact, and a list may grow with each item by as many pairs as it
// has. Bounds by the seconds for each byte drop most pairs. Above kExactItems items, or
// kLongestList pairs, lists are thinned: of pairs whose memory agrees to 1/4096 of the need, the
// fastest stays. Then the answer still keeps all limits, and its time may be above the least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tally::plan::pipeline {

inline constexpr std::size_t kExactItems = 64;
inline constexpr std::size_t kLongestList = 16384;

// A block that may be recomputed.
struct Item {
  double seconds = 0;  // more time of the stage
  double saved = 0;    // less memory, all microbatches in flight together; may be negative
  // Memory that its stash takes while the block is recomputed. Blocks are recomputed one at a time.
  double peak = 0;
};

struct Choice {
  std::vector<std::size_t> items;  // indices, ascending
  double seconds = 0;              // sum of the items
  double saved = 0;                // sum of the items, less their largest peak
};

// Returns the choice of the least seconds that saves at least `need`, if it takes less than
// `limit` seconds. A choice of at most `enough` seconds is returned even when another takes less.
// Precondition: need > 0.
std::optional<Choice> least_time(std::span<const Item> items, double need, double limit,
                                 double enough = -1);

// Returns the choice that saves the most within `budget` seconds; empty when nothing saves memory.
Choice most_saved(std::span<const Item> items, double budget);

}  // namespace tally::plan::pipeline
