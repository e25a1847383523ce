// The operations that the workers of the measurement announce. All ranks announce the same ones. A
// rank has one operation of each tag at a time, and announces its next round when it has ended.
// Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"
#include "perf/limits/roce/node_loop.h"

namespace tally::perf {

inline constexpr std::uint16_t kRanks = 4;
inline constexpr std::uint32_t kEpoch = 7;

class Announcements {
 public:
  static constexpr std::uint32_t kTags = 8;  // operations of a rank at a time

  // From now on next() returns notices of this kind.
  void begin(wire::Kind kind) {
    kind_ = kind;
    ends_ = false;
  }
  // From now on no rank begins an operation that no other rank has begun.
  void end() { ends_ = true; }

  // Returns the rank's next notice for this tag. Nothing: it has announced its last operation.
  // Precondition: its operation before with this tag has ended.
  std::optional<RingEntry> next(std::uint32_t rank, std::uint32_t tag_index) {
    std::uint32_t& round = rounds_[rank][tag_index];
    if (ends_ && round >= last_[tag_index]) return std::nullopt;
    wire::Notice notice;
    notice.kind = kind_;
    notice.epoch = kEpoch;
    notice.tag = tag_index + 1;
    notice.round = round++;
    last_[tag_index] = std::max(last_[tag_index], round);
    notice.cookie = tag_index;
    notice.count = kRegionBytes / sizeof(float);
    notice.in_region = kSourceRegion;
    notice.out_region = kTargetRegion;
    return wire::encode(notice);
  }
  // Returns the tag of an operation that has ended. Nothing: the operation has failed.
  static std::optional<std::uint32_t> ended(const RingEntry& message) {
    wire::Completion completion;
    const bool is_fine = wire::parse(message, completion) == Status::kOk &&
                         completion.status == Status::kOk && completion.cookie < kTags;
    return is_fine ? std::optional(completion.cookie) : std::nullopt;
  }

 private:
  wire::Kind kind_ = wire::Kind::kReduce;
  bool ends_ = true;
  std::array<std::array<std::uint32_t, kTags>, kRanks> rounds_{};
  std::array<std::uint32_t, kTags> last_{};  // rounds that some rank has begun
};

}  // namespace tally::perf
