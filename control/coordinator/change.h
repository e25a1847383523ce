// How a running job goes over from one version of its plan to the next: no operation fails by it,
// and each round of a tag is carried by one version, the same for all ranks. Pure: reports and
// `now` in, words for ranks out.
//
//   asking    Ranks make ready: each opens its sessions of the new version, holds its posts back
//             from then on, and reports the next round of each of its tags.
//   deciding  All have. From the largest of these rounds on a tag goes by the new version. Ranks
//             are told, and say that they know; nobody acts on it yet.
//   moving    All know. Ranks post again, by the old version what is before that round. Each
//             reports when nothing of it is left.
//   leaving   Nobody uses the old version. Ranks close their sessions of it, and say so.
//
// Until all know, the change can be called off, and is at a deadline: the old version goes on. A
// rank that hears nothing more may go on by the old one as long as it has not said that it knows
// the decision, since nobody moves before it has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tally::control {

// By tag: a round. Those of tags that are not there are 0.
using Rounds = std::map<std::uint32_t, std::uint32_t>;

// From the asking until all know. Below the default deadline of operations: one that waits for a
// post that is held back ends well.
inline constexpr Nanos kChangePatience = 30 * kSecond;

class Change {
 public:
  enum class Stage : std::uint8_t { kAsking, kDeciding, kMoving, kLeaving, kOver, kCalledOff };
  // What ranks are told.
  enum class Word : std::uint8_t { kPrepare, kDecided, kGo, kLeave, kCalledOff };
  // What they say.
  enum class Report : std::uint8_t { kReady, kKnows, kMoved, kLeft };

  struct Saying {
    std::uint32_t rank = 0;
    Word word = Word::kPrepare;
  };

  Change(std::uint32_t ranks, Nanos now);

  // Reports of another stage than this one are late or wrong, and change nothing. `rounds`: with
  // kReady.
  void report(std::uint32_t rank, Report report, const Rounds& rounds = {});
  // Not possible, as a rank or somebody else says. From moving on it is too late for that.
  void call_off(std::string why);
  // The rank is heard of no more.
  void lost(std::uint32_t rank);
  void tick(Nanos now);

  Stage stage() const { return stage_; }
  bool ended() const { return stage_ == Stage::kOver || stage_ == Stage::kCalledOff; }
  Nanos deadline() const;  // kForever: none
  // The first round of each tag that the new version carries. From deciding on.
  const Rounds& rounds() const { return rounds_; }
  // Those who have yet to say what this stage waits for.
  std::vector<std::uint32_t> waits_for() const;
  const std::string& why_called_off() const { return why_; }

  // What is to be said now, in order; once.
  std::vector<Saying> take();

 private:
  void enter(Stage stage, Word word);

  Stage stage_ = Stage::kAsking;
  Nanos deadline_;
  std::vector<bool> said_;  // by rank: what the stage waits for
  std::uint32_t missing_;
  Rounds rounds_;
  std::string why_;
  std::vector<Saying> sayings_;
};

// "rank 3", "ranks 1, 4 and 12 more".
std::string name_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace tally::control
