// What the vertices of a tree tell each other besides notices and completions: 64 bytes between a
// parent and a child that is a vertex itself, about one operation's part in one tree.
// docs/protocol.md draws the layout and says who sends what when.
//
// A child announces by a notice with kPartial, and says that an operation has failed below it by a
// completion, its *report*; the parent's completion is the verdict. In both, and in the notice,
// `cookie` is the tree.
#pragma once

#include <cstdint>

#include "base/ring.h"
#include "base/status.h"
#include "dataplane/wire/notice.h"

namespace tally::wire {

// The numbers are wire format; neither a notice's nor a completion's.
enum class VertexKind : std::uint8_t {
  // Child to parent.
  kTileReady = 0x40,   // answers kTileWanted: the sum of what is below stands in the up slot
  kTilePlaced = 0x41,  // answers kTileResult: everything below has it; the down slot is free
  // Parent to child.
  kTileWanted = 0x42,  // sum elements [first, first + count) into the up slot
  kTileResult = 0x43,  // the result of [first, first + count) stands in the down slot
  kMissing = 0x44,     // the deadline has passed: report who is missing below
  // Either way.
  kBroken = 0x45,  // the job has lost a member: its later operations fail with this status
};
std::string_view name(VertexKind kind);

enum VertexFlag : std::uint8_t {
  // kTileReady: there is no sum, the operation has failed; only the slot is free again.
  kVoid = 1,
};

struct VertexMessage {
  VertexKind kind = VertexKind::kTileReady;
  std::uint8_t flags = 0;
  Status status = Status::kOk;      // kBroken, and kOk elsewhere
  std::uint16_t culprit = kNoRank;  // kBroken: the member, if it is a rank; kNoRank elsewhere
  std::uint16_t group = 0;
  std::uint16_t part = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tree = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  // Of the child's memory for this parent; 0 where there is none. kBroken: the node that is lost,
  // from 1, by its number in the job; 0: it is none, or not known.
  std::uint32_t slot = 0;
  std::uint64_t first = 0;  // element of the operation; tiles only
  std::uint32_t count = 0;  // elements; tiles only, at least one
};

RingSlot encode(const VertexMessage& message);

// Parse is validate, as for notices. Whether operation, tile and slot are what they can be is the
// protocol's to judge.
Status parse(const RingSlot& slot, VertexMessage& message);

}  // namespace tally::wire
