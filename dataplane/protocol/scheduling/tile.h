// The work that the protocol gives to the engine: tiles to move and messages to send.
#pragma once

#include <cstdint>
#include <vector>

#include "base/containers/ring.h"
#include "base/element.h"
#include "base/status.h"
#include "dataplane/partition/groups.h"
#include "dataplane/protocol/operations/operation.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {

// A buffer of a rank or of a child node that a tile reads or writes.
struct Endpoint {
  SessionId member = kNoSession;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  // The cookie of a rank's announcement; for a partial sum, the child's number in the job.
  std::uint32_t cookie = 0;
};

// The checksums that a rank gives for its bytes of a tile.
struct TileChecksums {
  std::size_t source = 0;  // index in the tile's sources
  Endpoint where;
};

// The connection with a parent's node. Control gives the number.
using ParentId = std::uint32_t;
inline constexpr ParentId kNoParentId = UINT32_MAX;

// A buffer of this shard's own memory that the parent may access.
struct OwnBuffer {
  ParentId parent_id = kNoParentId;
  std::uint32_t index = 0;
};

// A child node that gets a result.
struct Below {
  std::uint16_t child = 0;        // number in the job
  SessionId member = kNoSession;  // session
  // The child node's down buffer that the tile uses, from its TileEvent until the shard has
  // notified the child node.
  std::uint32_t buffer = kNone;
};

// A run of elements on its way up, as a sum of sources, or down, as a result that the shard hands
// on.
//
// The sources are in the order of the sum: ranks in rank order, then partial sums of child nodes. A
// TileEvent reports when a partial sum is there. The shard pulls and adds up the sources in groups
// (groups.h). Results go to `landings` when start_pushing() allows it. They go to `below` when a
// TileEvent names the buffer.
struct Tile {
  // The phase says which bytes of the tile are in flight.
  enum class Phase : std::uint8_t {
    kPulling,   // the inputs of a group are in flight
    kSummed,    // no bytes are in flight; the sum is complete
    kKeptBack,  // no bytes are in flight; pushes of other tiles go first
    kPushing,   // results are in flight
  };

  std::uint32_t handle = 0;  // the engine's number for a tile in flight; TileEvents repeat it
  JobId job = 0;
  PoolIndex operation = kNone;
  ElementType type = ElementType::kF32;
  Operation reduction = Operation::kSum;
  std::uint32_t divisor = 1;
  std::uint64_t first = 0;  // index in the operation
  std::uint64_t count = 0;  // elements of `type`; bytes when the collective only moves them
  std::uint64_t operation_bytes = 0;
  bool stream = false;  // results bypass the caches, because they would not stay there
  Phase phase = Phase::kPulling;
  // Other jobs post small operations: the engine looks for events before the next tile.
  bool fine = false;
  std::vector<Endpoint> sources;
  std::uint32_t partials = 0;  // number of sources that are of child nodes; they are the last ones
  Group group;                 // the sources that the shard pulls and adds up now
  // The type of the child nodes' partial sums, and of this one: f32 for sums and averages of f16
  // and bf16, else `type`.
  ElementType partial_type = ElementType::kF32;
  // The sum is a partial sum for the parent, and goes into `own`, an up buffer.
  bool partial = false;
  OwnBuffer own;  // of a tile on its way down: the down buffer that holds the result
  std::vector<TileChecksums> checksums;  // of the ranks that give checksums
  std::uint64_t lead = 0;                // bytes of a source that lie in its first granule
  std::vector<Endpoint> landings;
  std::vector<Endpoint> stats_landings;  // of BlockStats, for the ranks that want them
  std::vector<Below> below;              // child nodes that get the result in a down buffer
  // Ranks whose memory the tile reads or writes, and child nodes whose memory it reads; each once.
  std::vector<SessionId> members;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(sources.size()) - partials; }
  // The sources before the group have been added up. Their sum is the first operand.
  bool continues() const { return group.begin > 0; }
  // The sum is complete with this group.
  bool completes() const { return group.end == sources.size(); }
};

// An event for which a tile has waited.
struct TileEvent {
  enum class Kind : std::uint8_t {
    kPull,  // sources[index] is there, and the engine pulls it
    // below[index] has room at `where`, its `buffer`. The engine pushes there, then calls
    // passed_down().
    kPush,
  };

  std::uint32_t handle = 0;  // of the tile
  Kind kind = Kind::kPull;
  std::uint32_t index = 0;
  // Not kOk when nothing is left to pull or push; then the tile fails.
  Status status = Status::kOk;
  Endpoint where;
  std::uint32_t buffer = kNone;  // of a push; the engine stores it in below[index]
};

// An encoded message between vertices.
struct TreeMessage {
  std::uint32_t to = 0;  // a child node's SessionId when it goes down, a ParentId when it goes up
  RingEntry message;
};

}  // namespace tally::protocol
