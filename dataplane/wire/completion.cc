#include "dataplane/wire/completion.h"

#include <array>
#include <cstring>

#include "dataplane/wire/little_endian.h"

namespace tally::wire {
namespace {

constexpr std::uint8_t kCompletionKind = 0x80;

struct CompletionLayout {
  Le8 version;
  Le8 kind;
  Le16 status;
  Le8 flags;
  Le8 field;
  Le16 part;
  Le32 epoch;
  Le32 tag;
  Le32 round;
  Le32 cookie;
  Le16 group;
  Le16 culprit;
  Le16 witness;
  Le16 missing;
  Le32 last_tag;
  Le32 last_round;
  Le64 culprit_value;
  Le64 witness_value;
  Le32 elapsed_us;
  Le32 reserved;
};
static_assert(sizeof(CompletionLayout) == kMessageBytes && alignof(CompletionLayout) == 1);

constexpr std::array<std::string_view, kFieldCount> kFieldNames = {"none",      "kind",  "type",
                                                                   "operation", "count", "root"};

}  // namespace

std::string_view name(Field field) {
  const auto index = static_cast<std::size_t>(field);
  return index < kFieldNames.size() ? kFieldNames[index] : "unknown";
}

RingEntry encode(const Completion& completion) {
  CompletionLayout layout;
  layout.version.set(kVersion);
  layout.kind.set(kCompletionKind);
  layout.status.set(static_cast<std::uint16_t>(completion.status));
  layout.flags.set(completion.flags);
  layout.field.set(static_cast<std::uint8_t>(completion.field));
  layout.part.set(completion.part);
  layout.epoch.set(completion.epoch);
  layout.tag.set(completion.tag);
  layout.round.set(completion.round);
  layout.cookie.set(completion.cookie);
  layout.group.set(completion.group);
  layout.culprit.set(completion.culprit);
  layout.witness.set(completion.witness);
  layout.missing.set(completion.missing);
  layout.last_tag.set(completion.last_tag);
  layout.last_round.set(completion.last_round);
  layout.culprit_value.set(completion.culprit_value);
  layout.witness_value.set(completion.witness_value);
  layout.elapsed_us.set(completion.elapsed_us);
  RingEntry entry;
  std::memcpy(entry.bytes, &layout, sizeof layout);
  return entry;
}

Status parse(const RingEntry& entry, Completion& completion) {
  CompletionLayout layout;
  std::memcpy(&layout, entry.bytes, sizeof layout);
  if (layout.version.get() != kVersion || layout.kind.get() != kCompletionKind ||
      layout.status.get() >= kStatusCount || layout.field.get() >= kFieldCount ||
      layout.reserved.get() != 0 ||
      (layout.flags.get() & ~std::uint64_t{kKnownCompletionFlags}) != 0) {
    return Status::kProtocol;
  }
  Completion read;
  read.status = static_cast<Status>(layout.status.get());
  read.flags = static_cast<std::uint8_t>(layout.flags.get());
  read.field = static_cast<Field>(layout.field.get());
  read.part = static_cast<std::uint16_t>(layout.part.get());
  read.epoch = static_cast<std::uint32_t>(layout.epoch.get());
  read.tag = static_cast<std::uint32_t>(layout.tag.get());
  read.round = static_cast<std::uint32_t>(layout.round.get());
  read.cookie = static_cast<std::uint32_t>(layout.cookie.get());
  read.group = static_cast<std::uint16_t>(layout.group.get());
  read.culprit = static_cast<std::uint16_t>(layout.culprit.get());
  read.witness = static_cast<std::uint16_t>(layout.witness.get());
  read.missing = static_cast<std::uint16_t>(layout.missing.get());
  read.last_tag = static_cast<std::uint32_t>(layout.last_tag.get());
  read.last_round = static_cast<std::uint32_t>(layout.last_round.get());
  read.culprit_value = layout.culprit_value.get();
  read.witness_value = layout.witness_value.get();
  read.elapsed_us = static_cast<std::uint32_t>(layout.elapsed_us.get());
  completion = read;
  return Status::kOk;
}

}  // namespace tally::wire
