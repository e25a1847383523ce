// The completion: 64 bytes by which the owner of a part tells a rank how it ended. On success the
// result stands in every receiver's memory; on failure it names the culprit and what it did.
#pragma once

#include <cstdint>

#include "base/ring.h"
#include "base/status.h"
#include "dataplane/wire/notice.h"

namespace tally::wire {

// In which field two ranks disagreed.
enum class Field : std::uint8_t { kNone, kKind, kType, kOperation, kCount, kRoot };
inline constexpr std::uint8_t kFieldCount = 6;
std::string_view name(Field field);

enum CompletionFlag : std::uint8_t {
  // Result bytes may have landed: an in-place operation's input is gone.
  kStarted = 1,
  // The culprit has announced something before: last_tag and last_round say what.
  kHasLast = 2,
};
inline constexpr std::uint8_t kKnownCompletionFlags = kStarted | kHasLast;

struct Completion {
  Status status = Status::kOk;
  std::uint8_t flags = 0;
  Field field = Field::kNone;  // kMismatch: what they disagree about
  std::uint16_t part = 0;
  std::uint16_t group = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint32_t cookie = 0;
  std::uint16_t culprit = kNoRank;  // the rank that is to blame, where one is
  std::uint16_t witness = kNoRank;  // kMismatch: a rank that announced it differently, first
  std::uint16_t missing = 0;        // kDeadline: how many ranks had not announced
  std::uint32_t last_tag = 0;       // kDeadline, with kHasLast: the culprit's last announcement
  std::uint32_t last_round = 0;
  std::uint64_t culprit_value = 0;  // kMismatch: what the culprit announced in `field`
  std::uint64_t witness_value = 0;  // and the witness
  std::uint32_t elapsed_us = 0;     // from the first notice to this verdict
};

RingSlot encode(const Completion& completion);

// Parse is validate, as for notices.
Status parse(const RingSlot& slot, Completion& completion);

}  // namespace tally::wire
