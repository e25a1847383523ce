#include "dataplane/wire/notice.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "dataplane/wire/little_endian.h"

namespace tally::wire {
namespace {

struct NoticeLayout {
  Le8 version;
  Le8 kind;
  Le8 type;
  Le8 operation;
  Le8 flags;
  Le8 priority;
  Le16 part;
  Le32 epoch;
  Le32 tag;
  Le32 round;
  Le32 cookie;
  Le64 count;
  Le32 in_region;
  Le32 out_region;
  Le48 in_offset;
  Le48 out_offset;
  Le32 side_region;
  Le32 deadline_ms;
  Le16 group;
  Le16 root;
};
static_assert(sizeof(NoticeLayout) == kMessageBytes && alignof(NoticeLayout) == 1);
static_assert(offsetof(NoticeLayout, count) == 24 && offsetof(NoticeLayout, side_region) == 52);
static_assert(Le48::kMax > kMaxBytes);

constexpr std::array<std::string_view, 8> kKindNames = {"none",      "all-reduce",     "reduce",
                                                        "broadcast", "reduce-scatter", "all-gather",
                                                        "barrier",   "cancel"};

bool has_root(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kCancel;
}

Status validate(const Notice& notice) {
  const std::uint64_t bytes = element_bytes(notice.type);
  if (notice.count > kMaxBytes / bytes) return Status::kInvalidArgument;
  if (notice.in_offset > kMaxBytes || notice.out_offset > kMaxBytes) {
    return Status::kInvalidArgument;
  }
  if (notice.kind == Kind::kBarrier && notice.count != 0) return Status::kInvalidArgument;
  if (has_root(notice.kind) ? notice.root >= kMaxRanks : notice.root != 0) {
    return Status::kInvalidArgument;
  }
  // Blocks of statistics are counted from the first element of a whole result.
  const bool whole_result = notice.kind == Kind::kAllReduce || notice.kind == Kind::kReduce;
  if ((notice.flags & kWantStats) != 0 && !whole_result) return Status::kUnsupported;
  const bool partial = (notice.flags & kPartial) != 0;
  if (partial && notice.flags != kPartial) return Status::kInvalidArgument;
  if (notice.flags != 0 && !partial && notice.side_region == kNoRegion) {
    return Status::kInvalidArgument;
  }
  // The place of a rank's contribution may be a number that a transport has chosen.
  const bool stored = notice.out_region > kMaxRegions || notice.side_region > kMaxRegions;
  if (stored || (partial && notice.in_region > kMaxRegions)) return Status::kInvalidArgument;
  return Status::kOk;
}

}  // namespace

std::string_view name(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

RingEntry encode(const Notice& notice) {
  NoticeLayout layout;
  layout.version.set(kVersion);
  layout.kind.set(static_cast<std::uint8_t>(notice.kind));
  layout.type.set(static_cast<std::uint8_t>(notice.type));
  layout.operation.set(static_cast<std::uint8_t>(notice.operation));
  layout.flags.set(notice.flags);
  layout.priority.set(notice.priority);
  layout.part.set(notice.part);
  layout.epoch.set(notice.epoch);
  layout.tag.set(notice.tag);
  layout.round.set(notice.round);
  layout.cookie.set(notice.cookie);
  layout.count.set(notice.count);
  layout.in_region.set(notice.in_region);
  layout.out_region.set(notice.out_region);
  layout.in_offset.set(notice.in_offset);
  layout.out_offset.set(notice.out_offset);
  layout.side_region.set(notice.side_region);
  layout.deadline_ms.set(notice.deadline_ms);
  layout.group.set(notice.group);
  layout.root.set(notice.root);
  RingEntry entry;
  std::memcpy(entry.bytes, &layout, sizeof layout);
  return entry;
}

Status parse(const RingEntry& entry, Notice& notice) {
  NoticeLayout layout;
  std::memcpy(&layout, entry.bytes, sizeof layout);
  if (layout.version.get() != kVersion) return Status::kProtocol;
  const std::uint64_t kind = layout.kind.get();
  if (kind < static_cast<std::uint64_t>(Kind::kAllReduce) ||
      kind > static_cast<std::uint64_t>(Kind::kCancel)) {
    return Status::kProtocol;
  }
  if (layout.type.get() >= kElementTypes.size()) return Status::kProtocol;
  if (layout.operation.get() >= kOperationNames.size()) return Status::kProtocol;
  if ((layout.flags.get() & ~std::uint64_t{kKnownNoticeFlags}) != 0) return Status::kProtocol;

  Notice read;
  read.kind = static_cast<Kind>(kind);
  read.type = static_cast<ElementType>(layout.type.get());
  read.operation = static_cast<Operation>(layout.operation.get());
  read.flags = static_cast<std::uint8_t>(layout.flags.get());
  read.priority = static_cast<std::uint8_t>(layout.priority.get());
  read.part = static_cast<std::uint16_t>(layout.part.get());
  read.epoch = static_cast<std::uint32_t>(layout.epoch.get());
  read.tag = static_cast<std::uint32_t>(layout.tag.get());
  read.round = static_cast<std::uint32_t>(layout.round.get());
  read.cookie = static_cast<std::uint32_t>(layout.cookie.get());
  read.count = layout.count.get();
  read.in_region = static_cast<std::uint32_t>(layout.in_region.get());
  read.out_region = static_cast<std::uint32_t>(layout.out_region.get());
  read.in_offset = layout.in_offset.get();
  read.out_offset = layout.out_offset.get();
  read.side_region = static_cast<std::uint32_t>(layout.side_region.get());
  read.deadline_ms = static_cast<std::uint32_t>(layout.deadline_ms.get());
  read.group = static_cast<std::uint16_t>(layout.group.get());
  read.root = static_cast<std::uint16_t>(layout.root.get());
  const Status status = validate(read);
  if (status == Status::kOk) notice = read;
  return status;
}

}  // namespace tally::wire
