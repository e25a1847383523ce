// What ranks tell each other, through the coordinator, about the rounds of a tag after a version of
// the plan is lost (docs/decisions/0035). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/status.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// How the last round of a tag that has ended has failed.
struct RoundFailure {
  Status status = Status::kNodeLost;
  std::uint16_t culprit = wire::kNoRank;
  std::uint32_t succeeded = 0;  // rounds below this one had ended well

  friend bool operator==(const RoundFailure&, const RoundFailure&) = default;
};

// What one rank knows.
struct TagRounds {
  std::uint32_t next = 0;               // the first round that has not ended
  std::optional<RoundFailure> failure;  // of round next - 1; none: it ended well
  bool kept = false;                    // the rank can do round next - 1 again

  friend bool operator==(const TagRounds&, const TagRounds&) = default;
};
using RoundsByTag = std::map<std::uint32_t, TagRounds>;

// What holds for all ranks: by tag, the first round that the next version carries, and how rounds
// before that have failed.
struct RoundDecision {
  std::map<std::uint32_t, std::uint32_t> first;
  std::map<std::uint32_t, RoundFailure> failed;
};

}  // namespace tally::client
