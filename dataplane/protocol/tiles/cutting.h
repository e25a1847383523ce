// How operations are cut into tiles: the size of a tile, what it reads, and where its result goes.
// These are functions over the state of a job. They change only the tile, whose vectors they reuse.
#pragma once

#include <cstdint>

#include "dataplane/partition/collective.h"
#include "dataplane/protocol/job/config.h"
#include "dataplane/protocol/job/job.h"
#include "dataplane/protocol/scheduling/tile.h"

namespace tally::protocol {

// Returns the elements of the operation's next tile at the root, when nothing ends it before.
// `allowance`: the bytes that the job may have in flight. `fine`: Tile::fine.
std::uint64_t tile_elements(const AggregatorConfig& config, const Job& job,
                            const OperationRecord& operation, std::uint64_t allowance, bool fine);

// Sets what all tiles have alike, and empties the lists of endpoints.
void begin_tile(const Job& job, PoolIndex index, std::uint64_t first, std::uint64_t count,
                Tile& tile);

// Adds the places of the vertex's ranks to the tile: their inputs when `pulls`, and their results.
void add_ranks(const Job& job, const OperationRecord& operation, const Stretch& stretch, bool pulls,
               Tile& tile);

// Turns a tile of a collective that only moves data into one of bytes. The rest of the tile must be
// complete.
void move_bytes(Tile& tile);

}  // namespace tally::protocol
