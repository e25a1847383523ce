// A rank's side of a change of the job's plan. It reads what the coordinator announces, and decides
// what this rank must do next. The session carries each step out and reports the result, which goes
// to the coordinator. It knows no node and no region. One thread at a time uses it, as with the
// session. Errors of the coordinator become steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "client/operations/operation_book.h"
#include "client/operations/plan_switch.h"
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
  // `coordinator` is the channel on which the job was opened; none when the nodes have no
  // coordinator. A coordinator of an older release refuses the first request and announces no
  // changes. `repairs`: the coordinator repairs jobs. `term` is the highest of a coordinator that
  // the rank knows so far.
  PlanChange(std::optional<rpc::RpcChannel> coordinator, bool repairs, rpc::HighestTerm term = {});
  PlanChange(const PlanChange&) = delete;  // news_ refers to term_
  PlanChange& operator=(const PlanChange&) = delete;

  bool has_coordinator() const { return news_.has_value(); }
  // Whether the coordinator can repair the job when a node is lost.
  bool repairs() const { return news_ && repairs_; }
  // Readable when the coordinator has sent something. -1: there is no coordinator.
  int fd() const { return news_ ? news_->fd() : -1; }
  // Returns the next step without waiting.
  PlanStep next(Nanos now);
  // next() has a step at this time although the coordinator sends nothing.
  Nanos silent_until() const { return silent_until_; }

  // The rank has the version of this epoch. `rounds` has the next round of each tag.
  void prepared(std::uint32_t epoch, const RoundsByTag& rounds, Nanos now);
  // The rank does not take the version of this epoch.
  void refuse(std::uint32_t epoch, const std::string& why);
  // The rank cannot use the next version any more. Its posts wait until the coordinator calls the
  // change off, because the other ranks may have decided already.
  void call_off(const std::string& why);
  // The rank has lost the version of this epoch, and holds its posts back. Reports the loss; the
  // next step is kPrepare of a repair, or kEndSession. Precondition: repairs().
  void interrupt(std::uint32_t epoch, const std::string& why, Nanos now);
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

  // Leaves the job at the coordinator.
  void leave();
  // Ends the connection to the coordinator.
  void end() { news_.reset(); }

 private:
  std::optional<PlanStep> step_of(PlanUpdate update, Nanos now);
  PlanStep lose_coordinator(const Error& why);
  PlanStep drop_next(std::string note);

  rpc::HighestTerm term_;  // of all connections to coordinators in this session
  std::optional<PlanNews> news_;
  bool repairs_;
  bool interrupted_ = false;
  PlanSwitch plans_;
  std::map<std::uint32_t, RoundFailure> failed_;  // of the decision, in a repair
  std::uint32_t epoch_ = 0;                       // of the version to which the plan changes
  std::optional<std::string> why_not_;            // set: this rank has called the change off
  bool reported_moved_ = false;
  Nanos silent_until_ = kForever;  // a coordinator that is silent until then counts as lost
};

}  // namespace tally::client
