// The notice: the 64-byte message by which a rank announces its contribution to one part of an
// operation, or cancels the announcement. The rank sends it to the shard that owns the part. It
// carries the count, type, kind and root of the whole operation, so the shard detects ranks that
// disagree. docs/protocol.md draws the layout.
#pragma once

#include <cstdint>

#include "base/containers/ring.h"
#include "base/element.h"
#include "base/status.h"

namespace tally::wire {

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kMessageBytes = 64;

// A group has at most this many ranks. Ranks are 0..kMaxRanks-1.
inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint16_t kNoRank = 0xffff;

// Region number 0 means "no region".
inline constexpr std::uint32_t kNoRegion = 0;

// Operations of at most this size may be eager: their results go behind the completion, so a rank
// may have its result while those of others are on their way. Each transport has a limit of its own
// below this one.
inline constexpr std::uint64_t kMostEagerBytes = 8192;

// The collectives differ only in which ranks contribute to a range and which ranks receive it
// (partition/collective.h). The numbers are part of the wire format.
enum class Kind : std::uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kReduceScatter = 4,
  kAllGather = 5,
  kBarrier = 6,
  kCancel = 7,  // cancels the announcement with the same epoch, group, tag, round and part
};

std::string_view name(Kind kind);

enum NoticeFlag : std::uint8_t {
  kWantStats = 1,  // write statistics of the result to side_region, one BlockStats per block
  // side_region has checksums of the contribution, after the statistics if there are any
  // (partition/granules.h). A rank sets this only for nodes that offer checksum verification.
  kHasChecksums = 2,
  // From a vertex of a tree to its parent: all ranks below the vertex have announced this
  // operation, and the parent may request partial sums (vertex.h). in_region is the region of the
  // sender's buffers. No other flag may be set with this one.
  kPartial = 4,
};
inline constexpr std::uint8_t kKnownNoticeFlags = kWantStats | kHasChecksums | kPartial;

// A notice in host form. A notice from parse() is valid.
struct Notice {
  Kind kind = Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::uint8_t flags = 0;
  std::uint8_t priority = 0;  // a higher value goes first
  std::uint16_t part = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint32_t cookie = 0;  // chosen by the announcer; the completion returns it
  std::uint64_t count = 0;   // number of elements of the whole operation
  std::uint32_t in_region = kNoRegion;
  std::uint32_t out_region = kNoRegion;
  std::uint64_t in_offset = 0;   // bytes; start of the rank's contribution to the operation
  std::uint64_t out_offset = 0;  // bytes; start of the rank's result of the operation
  std::uint32_t side_region = kNoRegion;  // for statistics and checksums, as the flags say
  std::uint32_t deadline_ms = 0;  // after this notice, on the owner's clock; 0 means the default
  std::uint16_t group = 0;
  std::uint16_t root = 0;  // reduce, broadcast: the root; cancel: the rank to blame; else 0
};

// Offsets and extents stay below this bound, so their sums do not overflow.
inline constexpr std::uint64_t kMaxBytes = 1ULL << 47;

// Numbers of a job's regions are 1..kMaxRegions for results, statistics, checksums and buffers. A
// contribution that arrived with its notice has a higher number, which the receiving transport
// chose (transport/onesided/payloads.h).
inline constexpr std::uint32_t kMaxRegions = 1U << 20;

// Returns the wire form. Precondition: parse() would accept the notice.
RingEntry encode(const Notice& notice);

// Parses and validates. Returns kOk and fills `notice`, or returns the reason and leaves `notice`
// unchanged. Never reads outside `entry`. The session's transport checks region numbers and ranges.
Status parse(const RingEntry& entry, Notice& notice);

}  // namespace tally::wire
