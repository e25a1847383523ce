// Statistics of a block of the stored result: what a shard computes in the same pass as the sum,
// and writes into the memory of the ranks that asked. Blocks are counted from the first element of
// the operation and added in index order by the client, so tiles, parts and shards cannot change
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally {

inline constexpr std::uint64_t kStatsBlock = 4096;  // elements

struct BlockStats {
  double sum_of_squares = 0;    // in f64, without what is not finite
  std::uint64_t nonfinite = 0;  // infinities and NaNs
};
static_assert(sizeof(BlockStats) == 16);

constexpr std::uint64_t stats_blocks(std::uint64_t elements) {
  return (elements + kStatsBlock - 1) / kStatsBlock;
}

}  // namespace tally
