// An operation over trees: the trees, the bytes of the operation that each carries, and the tiles
// into which these are cut. A plan is one, and so are parameter servers and double binary trees.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::simulator {

inline constexpr std::uint64_t kElementBytes = 4;                   // f32
inline constexpr std::uint64_t kMaxChunk = std::uint64_t{1} << 30;  // bytes

struct TreeSet {
  std::vector<plan::Tree> trees;
  std::vector<std::uint64_t> bytes;  // by tree
  std::uint64_t chunk = 0;           // bytes of the largest tile
  // Buffers between nodes, the key `window` of plan files; 0: nodes choose.
  std::uint32_t window = 0;
  std::uint32_t home = 0;  // the tree of part 0; the parts of the trees behind it follow

  std::uint64_t total() const;
  // The share of the operation that each tree carries.
  std::vector<double> shares() const;
};

// Divides `bytes` in proportion to the shares by largest remainder, so that they sum to `bytes`.
std::vector<std::uint64_t> divide(std::uint64_t bytes, std::span<const double> shares);

// Returns the trees of the size class that takes an operation of `bytes` bytes, with the cut that
// workers and nodes use (dataplane/partition/partition.h). An operation of a class that is not
// divided goes whole to the tree of its tag. Elements have 4 bytes. `chunk` replaces the chunk of
// the plan when it is not 0. Precondition: the plan has passed validate().
TreeSet trees_of_plan(const plan::Domain& domain, std::uint64_t bytes, std::uint64_t chunk,
                      std::uint32_t tag);

struct Tile {
  std::uint32_t tree = 0;
  std::uint32_t bytes = 0;
};

// Cuts the parts of all trees into tiles, oldest first. The trees advance together: the tile in the
// middle of one tree's part has about the age of the tile in the middle of another's.
std::vector<Tile> tiles_of(const TreeSet& set);

}  // namespace tally::simulator
