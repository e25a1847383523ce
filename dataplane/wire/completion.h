// The completion: the 64-byte message by which the owner of a part reports to a rank how the part
// ended. On success, the result is in every receiver's memory. On failure, the message names the
// culprit and its action.
#pragma once

#include <cstdint>

#include "base/containers/ring.h"
#include "base/status.h"
#include "dataplane/wire/notice.h"

namespace tally::wire {

// The field in which two ranks disagreed.
enum class Field : std::uint8_t { kNone, kKind, kType, kOperation, kCount, kRoot };
inline constexpr std::uint8_t kFieldCount = 6;
std::string_view name(Field field);

enum CompletionFlag : std::uint8_t {
  // Result bytes may have arrived, so the input of an in-place operation is lost.
  kStarted = 1,
  // The culprit has announced an earlier operation: last_tag and last_round name it.
  kHasLast = 2,
};
inline constexpr std::uint8_t kKnownCompletionFlags = kStarted | kHasLast;

struct Completion {
  Status status = Status::kOk;
  std::uint8_t flags = 0;
  Field field = Field::kNone;  // kMismatch: the field in which the ranks disagree
  std::uint16_t part = 0;
  std::uint16_t group = 0;
  std::uint32_t epoch = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint32_t cookie = 0;
  std::uint16_t culprit = kNoRank;  // the rank to blame, or kNoRank
  std::uint16_t witness = kNoRank;  // kMismatch: the rank that first announced different values
  std::uint16_t missing = 0;        // kDeadline: how many children of one vertex had not announced
  std::uint32_t last_tag = 0;       // kDeadline, with kHasLast: the culprit's last announcement
  std::uint32_t last_round = 0;
  std::uint64_t culprit_value = 0;  // kMismatch: the culprit's value of `field`
  std::uint64_t witness_value = 0;  // kMismatch: the witness's value of `field`
  std::uint32_t elapsed_us = 0;     // microseconds from the first notice to this verdict
};

RingEntry encode(const Completion& completion);

// Parses and validates, as parse() does for notices.
Status parse(const RingEntry& entry, Completion& completion);

}  // namespace tally::wire
