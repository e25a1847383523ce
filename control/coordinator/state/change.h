// How a running job changes from one version of its plan to the next. No operation fails because of
// the change. One version carries each round of a tag, the same at all ranks. Pure: reports and
// `now` in, instructions for ranks out.
//
//   asking    Each rank opens its sessions of the new version, holds its posts back from then on,
//             and reports the next round of each of its tags.
//   deciding  All ranks have reported. The new version carries each tag from the largest reported
//             round on. The coordinator sends these rounds to the ranks. They confirm, and do not
//             act on the rounds yet.
//   moving    All ranks have confirmed. They post again; the old version carries the rounds before
//             the decided one. Each rank reports when none of those is outstanding.
//   leaving   No rank uses the old version. Ranks close their sessions of it and report that.
//
// Until all ranks have confirmed, the change can be called off, and a deadline calls it off: the
// old version stays in use. A rank that loses the coordinator may keep the old version as long as
// it has not confirmed the decision, because no rank moves before all have confirmed. After that
// the next coordinator knows which version the job has.
//
// A *repair* is a change whose old version is lost. Ranks have interrupted its operations, report
// which rounds have ended, and go on by the decision of repair_rounds.h. The change is over when
// all ranks have confirmed, because nothing of the old version has to end. It has no deadline of
// its own: job_repairs.h limits all attempts of a repair together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/records/rank_loss.h"
#include "control/coordinator/state/repair_rounds.h"

namespace tally::control {

// The tags of all ranks together. Each rank gets the decision about all of them.
inline constexpr std::size_t kMostDecidedTags = 1 << 17;

class Change {
 public:
  enum class Stage : std::uint8_t { kAsking, kDeciding, kMoving, kLeaving, kOver, kCalledOff };
  // What the coordinator sends to the ranks. kEnded is not part of a change: the job has lost its
  // version, and there is no repair.
  enum class Word : std::uint8_t { kPrepare, kDecided, kGo, kLeave, kCalledOff, kEnded };
  // What the ranks report: the end of each stage; that they cannot change; and that they have lost
  // the version in use, which is no part of a change either.
  enum class Report : std::uint8_t { kReady, kKnows, kMoved, kLeft, kCannot, kLost };

  struct Instruction {
    std::uint32_t rank = 0;
    Word word = Word::kPrepare;
  };

  // To another plan. `timeout` is FaultTimeouts::change(). absent, here and below: ranks that have
  // no part in the change.
  Change(std::uint32_t ranks, Nanos now, Nanos timeout = FaultTimeouts{}.change(),
         const RankNumbers& absent = {});
  static Change repair(std::uint32_t ranks, const RankNumbers& absent = {});
  // A change to another plan that an earlier coordinator has brought to moving. Ranks report again
  // what they had reported.
  static Change taken_over(std::uint32_t ranks, const RankNumbers& absent = {});

  // Takes a rank's report of the end of a stage. A report of another stage than the present one is
  // late or wrong, and has no effect. rounds is used with kReady only.
  void report(std::uint32_t rank, Report report, const RankRounds& rounds = {});
  // Calls the change off, for a reason of a rank or of the coordinator. Has no effect from moving
  // on.
  void call_off(std::string why);
  // The rank's connection to the coordinator has ended.
  void lost(std::uint32_t rank);
  // The rank is gone, and the job goes on without it. A change that is decided waits no more for
  // its reports. Has no effect before.
  void leave_out(std::uint32_t rank);
  // The rank has another connection. It reports again that it has moved. The instruction to leave
  // may be lost, and is sent again.
  void resume(std::uint32_t rank);
  void tick(Nanos now);

  Stage stage() const { return stage_; }
  bool is_repair() const { return repair_.has_value(); }
  bool is_taken_over() const { return taken_over_; }
  bool ended() const { return stage_ == Stage::kOver || stage_ == Stage::kCalledOff; }
  Nanos deadline() const;  // kForever when there is none
  // Valid from deciding on.
  const RoundDecision& decision() const { return decision_; }
  // Whether the rank has reported in this change.
  bool has_reported(std::uint32_t rank) const;
  // The ranks whose report this stage still waits for.
  std::vector<std::uint32_t> waits_for() const;
  const std::string& why_called_off() const { return why_; }

  // The instructions to send now, in order; each is returned once.
  std::vector<Instruction> take();

 private:
  void enter(Stage stage, Word word);
  void advance();
  void add(std::uint32_t rank, const RankRounds& rounds);

  Stage stage_ = Stage::kAsking;
  bool taken_over_ = false;
  Nanos timeout_;
  Nanos deadline_;
  std::vector<bool> absent_;    // by rank
  std::vector<bool> reported_;  // by rank: the stage's report has arrived, or none is awaited
  std::uint32_t missing_ = 0;
  RoundDecision decision_;
  std::optional<RepairRounds> repair_;  // of a repair: what the ranks have reported
  std::string why_;
  std::vector<Instruction> instructions_;
};

// "rank 3", "ranks 1, 4 and 12 more".
std::string name_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace tally::control
