// A rank's side of a change of the job's plan. It reads what the coordinator announces, and decides
// what this rank must do next. The session carries each step out and reports the result, which goes
// to the coordinator. It knows no node and no region. One thread at a time uses it, as with the
// session. Errors of the coordinator become steps. When the coordinator is gone, it looks for the
// next one and goes on there: with the version in use, or with the next one where all ranks had
// decided for it. The operations of a job that has lost nothing go on meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/timeouts/fault_timeouts.h"
#include "client/operations/operation_book.h"
#include "client/operations/plan_switch.h"
#include "client/plans/coordinator_search.h"
#include "client/plans/known_coordinator.h"
#include "client/plans/plan_news.h"

namespace tally::client {

struct PlanStep {
  enum class Kind : std::uint8_t {
    kNone,        // nothing more has come
    kPrepare,     // open sessions for the version in `update`; then prepared() or refuse()
    kGo,          // all ranks know the decision: the next version carries new rounds
    kLeave,       // close the old version; then left()
    kRepaired,    // as kGo, in a repair: the next version takes the place of the lost one
    kDropNext,    // the change is off: close the next version when there is one
    kEndSession,  // because of `why`
  };
  Kind kind = Kind::kNone;
  PlanUpdate update{};
  Error why{};  // of kEndSession
  std::uint16_t culprit = wire::kNoRank;
  std::string note{};  // of kDropNext: a line for the log; empty: none
};

class PlanChange {
 public:
  // Returns how to find the next coordinator, for a rank whose job has one of these versions.
  using Search = std::function<CoordinatorSearch::Find(const std::vector<std::uint32_t>& epochs,
                                                       const rpc::HighestTerm& term)>;

  // Without `search`, no coordinator follows the first one.
  explicit PlanChange(KnownCoordinator coordinator, Search search = {});
  PlanChange(const PlanChange&) = delete;  // news_ refers to term_
  PlanChange& operator=(const PlanChange&) = delete;

  // There is a coordinator, or the rank looks for one.
  bool has_coordinator() const { return news_ || search_; }
  // Whether the job can be repaired when a node is lost.
  bool repairs() const { return has_coordinator() && repairs_; }
  // Readable when the coordinator has sent something, or the search is over. -1: there is none.
  int fd() const { return news_ ? news_->fd() : search_ ? search_->fd() : -1; }
  // Whether fd() is another descriptor than at the last call.
  bool fd_has_changed() { return std::exchange(fd_has_changed_, false); }
  // Returns the next step without waiting.
  PlanStep next(Nanos now);
  // next() has a step at this time although the coordinator sends nothing.
  Nanos silent_until() const {
    return news_ ? std::min(silent_until_, news_->silent_at()) : silent_until_;
  }

  // The rank has the version of this epoch. `rounds` has the next round of each tag.
  void prepared(std::uint32_t epoch, const RoundsByTag& rounds, Nanos now);
  // The rank does not take the version of this epoch.
  void refuse(std::uint32_t epoch, const std::string& why);
  // The rank cannot use the next version any more. Its posts wait until the coordinator calls the
  // change off, because the other ranks may have decided already.
  void call_off(const std::string& why);
  // The rank has lost the version of this epoch, and holds its posts back. Reports the loss; the
  // next step is kPrepare of a repair, or kEndSession. Precondition: repairs().
  void interrupt(std::uint32_t epoch, const LossReport& loss, Nanos now);
  void interrupt(std::uint32_t epoch, const std::string& why, Nanos now) {
    interrupt(epoch, LossReport{why}, now);
  }
  // Waits for the repair.
  bool is_interrupted() const { return interrupted_; }
  // Ends the interruption: what all ranks have decided. After kRepaired.
  RoundDecision repaired();
  // Whether posts or outstanding operations of this rank need the old version.
  bool needs_old(const OperationBook& old) const;
  // Reports once that the rank does not need the old version.
  void moved();
  void left();

  PlanSwitch& plans() { return plans_; }
  const FaultTimeouts& timeouts() const { return timeouts_; }

  // Leaves the job at the coordinator.
  void leave();
  // Ends the connection to the coordinator.
  void end() {
    news_.reset();
    search_.reset();
  }

 private:
  std::optional<PlanStep> next_of_search(Nanos now);
  std::optional<PlanStep> step_of(PlanUpdate update, Nanos now);
  PlanStep go();
  // The coordinator is gone. Begins to look for the next one.
  PlanStep lose_coordinator(const Error& why, Nanos now);
  PlanStep look_for_next(const Error& why, Nanos now);
  PlanStep resume(ResumedJob found, Nanos now);
  // No coordinator follows.
  PlanStep go_on_alone(const Error& why);
  PlanStep drop_next(std::string note);
  void connect(rpc::RpcChannel channel);

  rpc::HighestTerm term_;   // of all connections to coordinators in this session
  FaultTimeouts timeouts_;  // of the last coordinator
  std::optional<PlanNews> news_;
  bool repairs_;
  bool interrupted_ = false;
  PlanSwitch plans_;
  std::map<std::uint32_t, RoundFailure> failed_;  // of the decision, in a repair
  std::uint32_t epoch_ = 0;                       // of the version to which the plan changes
  std::optional<std::string> why_not_;            // set: this rank has called the change off
  bool reported_moved_ = false;
  // The version of which the rank knew the decision when it was interrupted; 0: there was none. The
  // other ranks may have changed to it.
  std::uint32_t known_ = 0;
  Search search_for_next_;
  std::optional<CoordinatorSearch> search_;
  std::string address_;        // of the last coordinator
  LossReport loss_;            // of the version of an interrupted rank
  std::uint32_t current_ = 0;  // epoch of the version that carries new rounds
  bool fd_has_changed_ = false;
  // While the rank waits for its repair: a coordinator without a message until then counts as lost.
  Nanos silent_until_ = kForever;
};

}  // namespace tally::client
