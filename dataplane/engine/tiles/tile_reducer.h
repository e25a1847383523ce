// The sums of tiles.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "dataplane/engine/tiles/tile_record.h"
#include "dataplane/transport/transport.h"
#include "summation/reduce.h"

namespace tally::engine {

// Computes on the bytes of one tile at a time, with the kernels: checks inputs against their
// checksums, adds up groups, and stores results and statistics. It owns no bytes; the buffers are
// in the tile's record. The tile pipeline calls it in the shard's thread, and must have begun
// access to the memory of the ranks that a call reads or stores to. The reserve functions allocate,
// and copy() does for statistics that are larger than any before.
class TileReducer {
 public:
  // Borrows both. `crc32c` may be null when no tile has checksums. `children`: the most inputs of a
  // tile.
  TileReducer(const summation::Kernels* kernels, const Crc32c* crc32c, std::size_t children);

  // Makes room for the sum of the tile's groups. Returns false without memory; then the tile fails.
  static bool reserve_partial(TileRecord& record);
  // Makes room for the result and the statistics of a tile up, and decides whether the result is
  // staged. Returns false without memory; then the tile fails.
  static bool reserve_results(TileRecord& record, std::span<const transport::Landing> landings);

  // Returns true when the input of tile.checksums[index] matches its checksums.
  bool intact(const TileRecord& record, std::size_t index) const;
  // Adds the group to the sum so far. The tile needs the group's inputs no more.
  // Precondition: reserve_partial() has returned true.
  void add_group(TileRecord& record);
  // Completes the sum of a tile up with its last group, and stores it: at the landings that the
  // transport allows, in the record's staging memory, and in `own`, the parent's buffer for a
  // partial sum. Precondition: reserve_results() has returned true.
  void reduce(TileRecord& record, std::span<const transport::Landing> landings, std::byte* own);
  // Stores the result of a tile down, record.result, at the landings that the transport allows.
  // `own`: the same memory, which may be written.
  void copy(TileRecord& record, std::span<const transport::Landing> landings, std::byte* own);

 private:
  void add_direct_outputs(const TileRecord& record, std::span<const transport::Landing> landings);
  void store(TileRecord& record, summation::Reduction& reduction) const;
  static void place_stats(TileRecord& record, std::span<const transport::Landing> landings);

  const summation::Kernels* kernels_;
  const Crc32c* crc32c_;
  std::vector<std::byte*> outputs_;
};

}  // namespace tally::engine
