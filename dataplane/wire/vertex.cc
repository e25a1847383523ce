#include "dataplane/wire/vertex.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "dataplane/wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr auto kFirstKind = static_cast<std::uint8_t>(VertexKind::kTileReady);
constexpr std::array<std::string_view, 6> kVertexKindNames = {
    "tile-ready", "tile-placed", "tile-wanted", "tile-result", "missing", "broken"};

struct VertexLayout {
  Le8 version;
  Le8 kind;
  Le8 flags;
  Le8 reserved_byte;
  Le16 status;
  Le16 culprit;
  Le32 epoch;
  Le32 tree;
  Le32 tag;
  Le32 round;
  Le16 group;
  Le16 part;
  Le32 buffer;
  Le64 first;
  Le32 count;
  Le64 reserved[2];
  Le32 reserved_word;
};
static_assert(sizeof(VertexLayout) == kMessageBytes && alignof(VertexLayout) == 1);
static_assert(offsetof(VertexLayout, buffer) == 28 && offsetof(VertexLayout, count) == 40);

bool about_tile(VertexKind kind) {
  return kind <= VertexKind::kTileResult;
}

// Fields without a meaning for this kind must be zero (or the value that means none).
bool valid(const VertexMessage& message) {
  if ((message.flags & ~kVoid) != 0) return false;
  if (message.flags != 0 && message.kind != VertexKind::kTileReady) return false;
  const bool broken = message.kind == VertexKind::kBroken;
  if (broken != (message.status != Status::kOk)) return false;
  if (message.culprit != kNoRank && (!broken || message.culprit >= kMaxRanks)) return false;
  if (broken) {
    return (message.tree | message.tag | message.round | message.count) == 0 &&
           message.group == 0 && message.part == 0 && message.first == 0;
  }
  if (about_tile(message.kind)) return message.count > 0 && message.first <= kMaxBytes;
  return message.buffer == 0 && message.first == 0 && message.count == 0;
}

}  // namespace

std::string_view name(VertexKind kind) {
  const auto index = static_cast<std::size_t>(static_cast<std::uint8_t>(kind) - kFirstKind);
  return index < kVertexKindNames.size() ? kVertexKindNames[index] : "unknown";
}

RingEntry encode(const VertexMessage& message) {
  VertexLayout layout{};
  layout.version.set(kVersion);
  layout.kind.set(static_cast<std::uint8_t>(message.kind));
  layout.flags.set(message.flags);
  layout.status.set(static_cast<std::uint16_t>(message.status));
  layout.culprit.set(message.culprit);
  layout.epoch.set(message.epoch);
  layout.tree.set(message.tree);
  layout.tag.set(message.tag);
  layout.round.set(message.round);
  layout.group.set(message.group);
  layout.part.set(message.part);
  layout.buffer.set(message.buffer);
  layout.first.set(message.first);
  layout.count.set(message.count);
  RingEntry entry;
  std::memcpy(entry.bytes, &layout, sizeof layout);
  return entry;
}

Status parse(const RingEntry& entry, VertexMessage& message) {
  VertexLayout layout;
  std::memcpy(&layout, entry.bytes, sizeof layout);
  const std::uint64_t kind = layout.kind.get();
  if (layout.version.get() != kVersion || kind < kFirstKind ||
      kind >= kFirstKind + kVertexKindNames.size() || layout.status.get() >= kStatusCount ||
      (layout.reserved_byte.get() | layout.reserved[0].get() | layout.reserved[1].get() |
       layout.reserved_word.get()) != 0) {
    return Status::kProtocol;
  }
  VertexMessage read;
  read.kind = static_cast<VertexKind>(kind);
  read.flags = static_cast<std::uint8_t>(layout.flags.get());
  read.status = static_cast<Status>(layout.status.get());
  read.culprit = static_cast<std::uint16_t>(layout.culprit.get());
  read.epoch = static_cast<std::uint32_t>(layout.epoch.get());
  read.tree = static_cast<std::uint32_t>(layout.tree.get());
  read.tag = static_cast<std::uint32_t>(layout.tag.get());
  read.round = static_cast<std::uint32_t>(layout.round.get());
  read.group = static_cast<std::uint16_t>(layout.group.get());
  read.part = static_cast<std::uint16_t>(layout.part.get());
  read.buffer = static_cast<std::uint32_t>(layout.buffer.get());
  read.first = layout.first.get();
  read.count = static_cast<std::uint32_t>(layout.count.get());
  if (!valid(read)) return Status::kProtocol;
  message = read;
  return Status::kOk;
}

}  // namespace tally::wire
