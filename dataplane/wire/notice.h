// The notice: 64 bytes by which a rank announces its part of an operation to the shard that owns
// that part, or takes the announcement back. It carries the whole operation's count, type, kind and
// root, so that ranks which disagree are seen. docs/protocol.md draws the layout.
#pragma once

#include <cstdint>

#include "base/element.h"
#include "base/ring.h"
#include "base/status.h"

namespace tally::wire {

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kMessageBytes = 64;

// A group's rank set is at most this large; ranks are 0..kMaxRanks-1.
inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint16_t kNoRank = 0xffff;

// Region 0 is "none".
inline constexpr std::uint32_t kNoRegion = 0;

// The collectives differ only in who contributes to a range and who receives it
// (protocol/collective.h). The numbers are wire format.
enum class Kind : std::uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kReduceScatter = 4,
  kAllGather = 5,
  kBarrier = 6,
  kCancel = 7,  // takes back the announcement with the same epoch, group, tag, round and part
};

std::string_view name(Kind kind);

enum NoticeFlag : std::uint8_t {
  kWantStats = 1,  // statistics of the result go to side_region, a BlockStats per block
  // Checksums of the contribution stand in side_region, behind the statistics if there are any
  // (protocol/granules.h). Only to nodes that offer to check them.
  kHasChecksums = 2,
  // From a vertex of a tree to its parent: all ranks below have announced this, and partial sums
  // are there to be had (vertex.h). in_region is the sender's slots; alone among the flags.
  kPartial = 4,
};
inline constexpr std::uint8_t kKnownNoticeFlags = kWantStats | kHasChecksums | kPartial;

// A notice in host form, valid by construction when it comes out of parse().
struct Notice {
  Kind kind = Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::uint8_t flags = 0;
  std::uint8_t priority = 0;  // higher goes first
  std::uint16_t part = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint32_t cookie = 0;  // the announcer's own; comes back in the completion
  std::uint64_t count = 0;   // elements of the whole operation
  std::uint32_t in_region = kNoRegion;
  std::uint32_t out_region = kNoRegion;
  std::uint64_t in_offset = 0;   // bytes; where the rank's contribution to the operation begins
  std::uint64_t out_offset = 0;  // bytes; where the rank's result of the operation begins
  std::uint32_t side_region = kNoRegion;  // for what the flags ask and offer
  std::uint32_t deadline_ms = 0;          // from this notice on the owner's clock; 0: the default
  std::uint16_t group = 0;
  std::uint16_t root = 0;  // of reduce and broadcast; of a cancel: on whose account; else 0
};

// Offsets and extents stay below this, so that no sum of them overflows.
inline constexpr std::uint64_t kMaxBytes = 1ULL << 47;

// Regions of a job are numbered from 1 to this at most: those that results, statistics, checksums
// and slots are in. A contribution that came with its notice has a higher number, of the transport
// that took it (transport/onesided/payloads.h).
inline constexpr std::uint32_t kMaxRegions = 1U << 20;

// Writes the wire form. Precondition: what parse() would accept.
RingSlot encode(const Notice& notice);

// Parse is validate: kOk and `notice` filled, or why not, and `notice` untouched. Never reads
// outside of `slot`. Region numbers and ranges are checked against the session by its transport.
Status parse(const RingSlot& slot, Notice& notice);

}  // namespace tally::wire
