// What a shard knows of one operation (of its part of it), and of each rank's announcement.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "dataplane/protocol/collective.h"
#include "dataplane/protocol/stages.h"
#include "dataplane/wire/completion.h"

namespace tally::protocol {

// A session, by its number on this node (transport::Peer).
using Member = std::uint32_t;
inline constexpr Member kNoMember = UINT32_MAX;

// Index into a pool; kNone is the null.
using Slot = std::uint32_t;
inline constexpr Slot kNone = UINT32_MAX;

// Where a rank's bytes are, or a branch's slots. Parked from its notice until its completion.
struct Announcement {
  std::uint64_t in_offset = 0;
  std::uint64_t out_offset = 0;
  Member member = kNoMember;  // kNoMember: it has gone, nobody is told
  std::uint32_t cookie = 0;
  std::uint32_t in_region = 0;
  std::uint32_t out_region = 0;
  std::uint32_t side_region = 0;
  std::uint16_t rank = 0;  // or ranks of the job + number of the branch
  bool wants_stats = false;
  bool has_checksums = false;
  Slot next = kNone;  // the operation's next announcement; in rank order once it is ready
};

// Why an operation failed; the same for all ranks.
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

// Members in the order in which the path of a tile touches them.
struct OperationRecord {
  enum class State : std::uint8_t {
    kFree,
    kGathering,  // not all children have announced
    kActive,     // tiles are under way, or waited for: the vertex above asks for them
    kReported,   // failed; the vertex above has been told, its verdict counts
    kDraining,   // failed; the verdict waits for the tiles in flight
    kFailed,     // verdict given; kept for ranks that announce late
  };

  State state = State::kFree;
  bool started : 1 = false;      // the first push may have gone out
  bool wants_stats : 1 = false;  // of any rank
  bool stream : 1 = false;       // Tile::stream, for all its tiles
  bool was_ready : 1 = false;
  bool asked : 1 = false;     // branches were asked who is missing, once the deadline had passed
  std::uint8_t priority = 0;  // the first announcer's
  std::uint32_t tiles_in_flight = 0;
  std::uint64_t cursor = 0;  // the next element to pull
  std::uint64_t end = 0;     // one past the part's last element
  Shape shape;
  Slot announcements = kNone;   // head of the list
  std::uint16_t announced = 0;  // children that have announced, told or not
  std::uint16_t children = 0;   // of the vertex: so many announce it
  std::uint64_t age = 0;        // order of becoming ready
  std::uint64_t first = 0;      // the part's first element
  std::uint16_t part = 0;
  std::uint16_t vertex = 0;      // of the job's
  std::uint16_t first_rank = 0;  // who announced first: the witness of a mismatch
  std::uint32_t placing = 0;     // results of a root that branches do not have everywhere yet
  Slot first_wanted = kNone;     // tiles that the vertex above waits for (ParentSlots::up)
  Slot last_wanted = kNone;
  OperationKey key;
  Nanos first_notice = 0;
  Nanos deadline = 0;
  StageTimes times;
  Verdict verdict;
  Slot older_failed = kNone;  // the job's queue of kFailed
  Slot newer_failed = kNone;
};

}  // namespace tally::protocol
