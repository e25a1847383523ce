// Statistics of one block of the stored result. A shard computes them in the same pass as the sum.
// It writes them into the memory of the ranks that requested them. Blocks are numbered from the
// first element of the operation. The client adds them in index order, so the sizes of tiles, parts
// and shards do not change the totals.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally {

inline constexpr std::uint64_t kStatsBlock = 4096;  // elements

struct BlockStats {
  double sum_of_squares = 0;    // in f64, over the finite elements
  std::uint64_t nonfinite = 0;  // number of infinities and NaNs
};
static_assert(sizeof(BlockStats) == 16);

constexpr std::uint64_t stats_blocks(std::uint64_t elements) {
  return (elements + kStatsBlock - 1) / kStatsBlock;
}

}  // namespace tally
