// What the protocol has the engine move.
#pragma once

#include <cstdint>
#include <vector>

#include "base/element.h"
#include "base/ring.h"
#include "base/status.h"
#include "dataplane/protocol/operation.h"
#include "dataplane/protocol/tile_scheduler.h"

namespace tally::protocol {

// A buffer that a tile reads or writes, of a rank or of a branch.
struct Endpoint {
  Member member = kNoMember;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t cookie = 0;  // of a rank's announcement; of a partial sum: the child
};

// The checksums that a rank gives for its bytes of a tile.
struct TileChecksums {
  std::size_t source = 0;  // index of these bytes
  Endpoint where;
};

// The connection with a parent's node, by a number that control gives.
using Link = std::uint32_t;
inline constexpr Link kNoLink = UINT32_MAX;

// A slot of this shard's own memory for the vertex above.
struct OwnSlot {
  Link link = kNoLink;
  std::uint32_t slot = 0;
};

// A branch that gets a result.
struct Below {
  std::uint16_t child = 0;    // of the job
  Member member = kNoMember;  // of the transport
  // The branch's down slot that is the tile's: from its Step until the branch has been told.
  std::uint32_t slot = kNone;
};

// A run of elements on its way: up, as a sum of sources, or down, as a result that is handed on.
//
// Sources are in the order of the sum: ranks in rank order, then partial sums of branches. The
// latter are there when a Step says so. Results go to `landings` at once, and to `below` when a
// Step says where.
struct Tile {
  std::uint32_t handle = 0;  // the engine's own number for a tile in flight; comes back in Steps
  JobSlot job = 0;
  Slot operation = kNone;
  ElementType type = ElementType::kF32;
  Operation reduction = Operation::kSum;
  std::uint32_t divisor = 1;
  std::uint64_t first = 0;  // element of the operation
  std::uint64_t count = 0;  // elements of `type` (bytes where a collective only moves them)
  std::uint64_t operation_bytes = 0;
  bool stream = false;  // results go past the caches: they would not stay there
  bool summed = false;  // of the bytes in flight it has pushes, no more pulls
  bool fine = false;    // others' small operations are about: look for news before the next tile
  std::vector<Endpoint> sources;
  std::uint32_t partials = 0;  // so many of the sources, the last ones, are of branches
  // Of a branch's partial sum, and of this one: f32 for sums of f16 and bf16, else `type`.
  ElementType partial_type = ElementType::kF32;
  bool partial = false;  // the sum is one, for the vertex above: it goes into `own`, an up slot
  OwnSlot own;           // of a tile on its way down: the down slot where the result stands
  std::vector<TileChecksums> checksums;  // of the ranks that give any
  std::uint64_t lead = 0;                // bytes of a source that lie in its first granule
  std::vector<Endpoint> landings;
  std::vector<Endpoint> stats_landings;  // of BlockStats, for the ranks that want them
  std::vector<Below> below;              // they get the result in down slots of theirs
  std::vector<Member> members;           // whose memory is read or stored, each once
};

// What a tile waited for has come.
struct Step {
  enum class Kind : std::uint8_t {
    kPull,  // sources[index] is there: pull it
    kPush,  // below[index] has room at `where`, its `slot`: push there, then say passed_down()
  };

  std::uint32_t handle = 0;  // of the tile
  Kind kind = Kind::kPull;
  std::uint32_t index = 0;
  Status status =
      Status::kOk;  // else there is nothing to pull or push any more, and the tile fails
  Endpoint where;
  std::uint32_t slot = kNone;  // of a push: whoever takes the step notes it in below[index]
};

// A message between vertices, encoded.
struct Letter {
  std::uint32_t to = 0;  // a branch's Member, or a Link
  RingSlot message;
};

}  // namespace tally::protocol
