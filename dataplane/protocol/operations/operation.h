// The state of one operation at a shard (of the part that the shard's tree carries), and each
// child's announcement of it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "dataplane/partition/collective.h"
#include "dataplane/protocol/operations/stages.h"
#include "dataplane/wire/completion.h"

namespace tally::protocol {

// The number of a session on this node (transport::Peer).
using SessionId = std::uint32_t;
inline constexpr SessionId kNoSession = UINT32_MAX;

// An index into a pool. kNone is no entry.
using PoolIndex = std::uint32_t;
inline constexpr PoolIndex kNone = UINT32_MAX;

// The place of a rank's bytes, or of a child node's buffers. The shard keeps it from the child's
// notice until its completion.
struct Announcement {
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  SessionId member = kNoSession;  // kNoSession: the session has ended, and gets no completion
  std::uint32_t cookie = 0;
  std::uint32_t in_region = 0;
  std::uint32_t out_region = 0;
  std::uint32_t side_region = 0;
  std::uint16_t rank = 0;  // or the job's number of ranks + the child node's number
  bool wants_stats = false;
  bool has_checksums = false;
  // The operation's next announcement. Once the operation is ready, ranks come in rank order, then
  // child nodes.
  PoolIndex next = kNone;
};

// The outcome of an operation, with the reason of a failure. It is the same for all ranks.
struct Verdict {
  Status status = Status::kOk;
  wire::Field field = wire::Field::kNone;
  std::uint16_t culprit = wire::kNoRank;
  std::uint16_t witness = wire::kNoRank;
  std::uint16_t missing = 0;
  bool has_last = false;
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  std::uint64_t culprit_value = 0;
  std::uint64_t witness_value = 0;
};

struct OperationKey {
  std::uint32_t tree = 0;
  std::uint16_t group = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;

  bool operator==(const OperationKey&) const = default;
};

// The fields stand in the order in which the path of a tile uses them.
struct OperationRecord {
  enum class State : std::uint8_t {
    kFree,
    kGathering,  // not all children have announced
    kActive,     // all have announced; tiles are under way, or the parent has yet to request them
    kReported,   // failed; the parent has the report and decides the verdict
    kDraining,   // failed; the verdict waits for the tiles in flight
    kFailed,     // the verdict is given; kept for children that announce late
  };

  State state = State::kFree;
  bool started : 1 = false;      // result bytes may have been stored
  bool wants_stats : 1 = false;  // whether any rank wants statistics
  bool stream : 1 = false;       // Tile::stream, for all tiles of the operation
  bool was_ready : 1 = false;
  bool asked : 1 = false;  // whether child nodes were asked for missing ranks, after the deadline
  std::uint8_t priority = 0;  // the first notice's
  std::uint32_t tiles_in_flight = 0;
  // The root: the next element to pull. Another vertex: one past the last element requested.
  std::uint64_t cursor = 0;
  std::uint64_t end = 0;  // one past the part's last element
  Shape shape;
  PoolIndex announcements = kNone;  // head of the list
  // Children that have announced. After a failure also those that are lost, and child nodes that
  // have the verdict.
  std::uint16_t announced = 0;
  std::uint16_t children = 0;  // the vertex's children, which all announce the operation
  std::uint64_t age = 0;       // position in the order in which operations become ready
  std::uint64_t first = 0;     // the part's first element
  std::uint16_t part = 0;
  std::uint16_t vertex = 0;  // index in the job's vertices
  // The first rank to announce, or the lowest rank below a first child node: the witness of a
  // mismatch.
  std::uint16_t first_rank = 0;
  // Results that a root has handed to child nodes, and that are not everywhere below them yet.
  std::uint32_t placing = 0;
  // Queue of the tiles that the parent has requested and that have not started (ParentBuffers::up).
  PoolIndex first_wanted = kNone;
  PoolIndex last_wanted = kNone;
  // At a root whose results go down another tree: the operation's record in the other of the two
  // trees, until both have ended.
  PoolIndex other = kNone;
  OperationKey key;
  Nanos first_notice = 0;
  Nanos deadline = 0;
  StageTimes times;
  Verdict verdict;
  PoolIndex older_failed = kNone;  // the job's queue of kFailed operations
  PoolIndex newer_failed = kNone;

  bool is_open() const { return state == State::kGathering || state == State::kActive; }
};

}  // namespace tally::protocol
