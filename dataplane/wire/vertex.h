// The messages between the vertices of a tree, besides notices and completions. Each has 64 bytes.
// It goes between a parent and a child that is a vertex itself, about one operation's part in one
// tree. docs/protocol.md draws the layout and says which vertex sends which message when.
//
// A child announces with a notice that has kPartial. When an operation has failed below the child,
// the child sends a completion, its *report*. The parent's completion is the verdict. In both
// completions, and in the notice, `cookie` is the tree.
#pragma once

#include <cstdint>

#include "base/containers/ring.h"
#include "base/status.h"
#include "dataplane/wire/notice.h"

namespace tally::wire {

// The numbers are part of the wire format. They differ from the kinds of notices and completions.
enum class VertexKind : std::uint8_t {
  // From child to parent:
  kTileReady = 0x40,   // answers kTileWanted: the sum of the ranks below is in the up buffer
  kTilePlaced = 0x41,  // answers kTileResult: all below have the result; the down buffer is free
  // From parent to child:
  kTileWanted = 0x42,  // the child must sum elements [first, first + count) into the up buffer
  kTileResult = 0x43,  // the result of [first, first + count) is in the down buffer
  kMissing = 0x44,  // the deadline has passed: the child must report which ranks below are missing
  // In both directions:
  kBroken = 0x45,  // the job has lost a member: later operations fail with this status
};
std::string_view name(VertexKind kind);

enum VertexFlag : std::uint8_t {
  // kTileReady: there is no sum because the operation has failed. The message only frees the
  // buffer.
  kVoid = 1,
};

struct VertexMessage {
  VertexKind kind = VertexKind::kTileReady;
  std::uint8_t flags = 0;
  Status status = Status::kOk;      // kBroken: why the job is broken; kOk in other kinds
  std::uint16_t culprit = kNoRank;  // kBroken: the lost member if it is a rank; else kNoRank
  std::uint16_t group = 0;
  std::uint16_t part = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tree = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  // A buffer of the child's memory for this parent; 0 in messages without a buffer. In kBroken: the
  // lost node by its number in the job, from 1; 0 when the loss is not a node or the node is not
  // known.
  std::uint32_t buffer = 0;
  std::uint64_t first = 0;  // first element, counted in the operation; tile messages only
  std::uint32_t count = 0;  // number of elements, at least one; tile messages only
};

RingEntry encode(const VertexMessage& message);

// Parses and validates, as parse() does for notices. The protocol checks that operation, tile and
// buffer can be right.
Status parse(const RingEntry& entry, VertexMessage& message);

}  // namespace tally::wire
