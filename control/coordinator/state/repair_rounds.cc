#include "control/coordinator/state/repair_rounds.h"

#include <algorithm>

namespace tally::control {

void RepairRounds::add(std::uint32_t rank, const RankRounds& rounds) {
  for (const auto& [number, next] : rounds.next) {
    if (next == 0) continue;  // as if the rank had not named it
    const auto failed = rounds.failed.find(number);
    const bool has_failed = failed != rounds.failed.end();
    Tag& tag = tags_[number];
    const std::uint32_t succeeded =
        has_failed ? std::min(failed->second.succeeded, next - 1) : next;
    tag.succeeded = std::max(tag.succeeded, succeeded);
    if (next < tag.first) continue;
    if (next > tag.first) {
      tag = {.first = next, .succeeded = tag.succeeded};
    }
    ++tag.furthest;
    tag.has_succeeded |= !has_failed;
    if (!has_failed && rounds.kept.contains(number)) ++tag.kept;
    if (rank >= tag.rank) continue;
    tag.rank = rank;
    if (has_failed) tag.failure = failed->second;
  }
}

RoundDecision RepairRounds::decide() const {
  RoundDecision decision;
  for (const auto& [number, tag] : tags_) {
    std::uint32_t& first = decision.first[number] = tag.first;
    if (!tag.has_succeeded) {
      RoundFailure& failure = decision.failed[number] = tag.failure;
      failure.succeeded = tag.succeeded;
    } else if (tag.furthest < ranks_ && tag.kept == tag.furthest) {
      --first;
    }
  }
  return decision;
}

}  // namespace tally::control
