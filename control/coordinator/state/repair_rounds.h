// Which rounds the next version of a job carries. A change of a running plan only needs the largest
// round that any rank posts next. A repair decides from more, because the version before it is lost
// with operations under way: which rounds have ended at some rank and at others not, and how. Pure.
//
// For each tag of a repair, `first` is the largest round that has not ended at some rank. A round
// below it has ended at some rank, so it ends alike at the ranks that still wait for it:
//
//   - It succeeds when it did at one of the ranks that are furthest ahead: its result stands at all
//     ranks. An eager result does not. When each of these ranks has kept its contribution, and
//     another rank still waits for the round, all ranks do it again.
//   - It fails, with the status of the lowest of these ranks, when it failed at all of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "base/status.h"

namespace tally::control {

// A round by tag. Tags that are missing here have round 0.
using Rounds = std::map<std::uint32_t, std::uint32_t>;

// How the last round of a tag that has ended has failed.
struct RoundFailure {
  Status status = Status::kNodeLost;
  std::uint16_t culprit = UINT16_MAX;  // a rank; UINT16_MAX: none
  std::uint32_t succeeded = 0;         // all rounds below this one had ended well

  friend bool operator==(const RoundFailure&, const RoundFailure&) = default;
};
using RoundFailures = std::map<std::uint32_t, RoundFailure>;  // by tag

// What a rank reports when it is ready to change.
struct RankRounds {
  // By tag. In a planned change: the round that the rank posts next. In a repair: the first round
  // that has not ended at the rank.
  Rounds next;
  // For a repair: of tags whose last round has ended with an error, and of tags whose last round
  // has ended well and can be done again.
  RoundFailures failed{};
  std::set<std::uint32_t> kept{};
};

// What all ranks go by. Tags that are missing in failed have no failure.
struct RoundDecision {
  Rounds first;  // the first round of each tag that the next version carries
  RoundFailures failed{};
};

class RepairRounds {
 public:
  // ranks: how many report.
  explicit RepairRounds(std::uint32_t ranks) : ranks_(ranks) {}

  // Adds what a rank reports. Precondition: it has not reported yet. Entries about a tag that the
  // rank has not used, or that contradict each other, come from no correct rank, and do not count.
  void add(std::uint32_t rank, const RankRounds& rounds);
  std::size_t tags() const { return tags_.size(); }  // that ranks have named
  // Precondition: all ranks have been added.
  RoundDecision decide() const;

 private:
  // A tag, by the ranks that have been added. Those that are furthest ahead have `first` as their
  // next round.
  struct Tag {
    std::uint32_t first = 0;
    std::uint32_t furthest = 0;       // how many ranks are furthest ahead
    std::uint32_t kept = 0;           // how many of them can do the last round again
    bool has_succeeded = false;       // at one of them
    std::uint32_t rank = UINT32_MAX;  // the lowest of them
    RoundFailure failure{};           // there
    std::uint32_t succeeded = 0;      // the largest of all ranks
  };

  std::uint32_t ranks_;
  std::map<std::uint32_t, Tag> tags_;
};

}  // namespace tally::control
