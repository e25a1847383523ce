// How the versions of jobs go from stage to stage (coordinator.h has the stages): nodes take
// assignments and drop them, ranks change to the next version, lost versions are repaired or end
// their job. It queues news for nodes, and answers and notifications for ranks, which the
// coordinator takes and sends. The coordinator's thread calls this, with the time. Precondition of
// place(), begin_next() and enter(): the version exists. Other calls about a version that has ended
// do nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/state/change.h"
#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/members/news_queue.h"

namespace tally::control {

struct RankAnswer {
  Ticket ticket = 0;
  Result<SharedJob> outcome;  // a record without nodes when there are no members
  std::uint32_t rank = 0;     // the rank that asked
  Rounds first{};             // for a rank that returns: the version's first round of each tag
};

// A message to a rank that listens.
struct RankNotification {
  Ticket ticket = 0;
  std::uint32_t rank = 0;
  Change::Word word = Change::Word::kPrepare;
  std::uint32_t epoch = 0;                 // of the next version; with kEnded, of the lost one
  SharedJob version{};                     // the next version, with kPrepare
  bool is_repair = false;                  // with kPrepare
  RoundDecision decision{};                // with kDecided
  std::string why{};                       // with kCalledOff and kEnded
  std::optional<std::uint32_t> culprit{};  // with kEnded: the rank that is lost
};

// What a rank reports. `rounds` is used with kReady; why with kCannot and kLost; the last two with
// kLost, for a job that may go on without ranks.
struct RankReport {
  Change::Report report = Change::Report::kReady;
  RankRounds rounds{};
  std::string why{};
  std::optional<std::uint32_t> lost_rank{};  // its session at a node has ended
  std::optional<std::uint32_t> late_rank{};  // it has not announced an operation by its deadline
};

// For the log: a repair has begun, or has ended.
struct RepairEvent {
  std::string job;
  std::uint32_t epoch = 0;  // of the lost version
  std::string why;          // it is lost; or why there is no repair
  bool has_ended = false;
  std::uint32_t repaired_by = 0;  // the epoch that the job has now; 0: none
  Nanos since = 0;                // when the repair began
};

class JobVersions {
 public:
  // Borrows jobs and news.
  JobVersions(JobTable& jobs, NewsQueue& news, FaultTimeouts timeouts = {})
      : jobs_(jobs), news_(news), timeouts_(timeouts) {}

  // -- Nodes -----------------------------------------------------------------------------------
  // The gathered job has its plan now: asks its nodes to serve it.
  void place(JobRecord placed, Nanos now);
  // Asks the nodes of a running job's next version to serve it.
  void begin_next(JobRecord next, Nanos now);
  // The node serves the version.
  void confirm(std::uint32_t epoch, NodeId node);
  // The node does not serve the version, or not any more.
  void gone_from(std::uint32_t epoch, NodeId node, const Error& why);
  // The version is over at the node, because a rank has left it there.
  void over_at(std::uint32_t epoch, NodeId node, const Error& why);
  // The node has joined again and has only these placements: versions that are over have ended
  // there where it has them no more.
  void forget_over(NodeId node, const std::vector<std::uint64_t>& placements);
  // A member has lost its connection, and may join again. A repair does not wait for that.
  void node_awaited(NodeId node, const Error& why);
  // A member gives no sign of life, and may still serve what it has. Versions that can be repaired
  // without it are lost. A next version is called off, and its change begins again.
  void node_silent(NodeId node, const Error& why);
  // A member has left, and what it served with it.
  void node_left(NodeId node, const Error& why);

  // -- Ranks -----------------------------------------------------------------------------------
  void answer(Ticket ticket, Result<SharedJob> outcome, std::uint32_t rank);
  // The rank takes its place in the version. It is answered at once when the version runs.
  void enter(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  // The rank has the version, and takes its place in it at this coordinator, and in the version
  // before while that is leaving. Precondition: the place is free.
  void resume(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  // A rank opens the job, and has a place in a version that is lost or over: so the process that
  // had the place is gone. Ends that version. Returns whether there was one.
  bool ends_for(const std::string& job, std::uint32_t rank, std::uint32_t ranks);
  // A rank that the version leaves out, or is about to leave out, opens the job again. It is
  // answered when it has a place in a next version. Precondition: RankAdmission::admits().
  void come_back(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  // Not all ranks of a version of an earlier coordinator have resumed it in time. It goes on while
  // it has lost nothing, or without these ranks where its policy says so.
  void not_resumed(std::uint32_t epoch);
  // The rank is gone, answered or not. how: "has left".
  void close(Ticket ticket, std::string_view how) { close(ticket, how, false, 0); }
  // The rank's connection has ended. A version that ranks use waits for it until then, and while
  // it waits for ranks of an earlier coordinator.
  void lose_connection(Ticket ticket, Nanos resume_until) {
    close(ticket, "died or lost its connection to the coordinator", true, resume_until);
  }
  // Takes the rank's report on the change to the version of that epoch, or on the loss of it.
  void report(Ticket ticket, std::uint32_t epoch, const RankReport& report);

  // -- Time ------------------------------------------------------------------------------------
  // Ends the versions that nodes have not acknowledged in time.
  void end_late(Nanos now);
  // Begins the changes whose nodes have acknowledged, and ends those that take too long.
  void advance_changes(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

  // Ends the job in all its versions. It is erased when none of its nodes has it any more.
  void end(std::uint32_t epoch, const Error& why);

  // Ends a job whose lost version is not repaired. culprit: the rank that is to blame.
  void give_up(std::uint32_t epoch, const Error& why, std::optional<std::uint32_t> culprit);

  // What to send now, and to log; each is returned once.
  std::vector<RankAnswer> take_answers();
  std::vector<RankNotification> take_notifications();
  std::vector<RepairEvent> take_repair_events();

 private:
  void ask_nodes(const JobRecord& job, JobState& state, Nanos now);
  void withdraw(std::uint32_t epoch, JobState& state);
  void notify_ranks(JobState& state);
  void settle_change(std::uint32_t epoch);
  void fail_next(std::uint32_t epoch, const std::string& why);
  void end_other_versions(std::uint32_t epoch, const Error& why);
  void end_when_left(std::uint32_t epoch);
  void close(Ticket ticket, std::string_view how, bool has_died, Nanos resume_until);
  bool leave_out(std::uint32_t epoch, const RankNumbers& lost, const std::string& why,
                 bool when_needed = false);
  void leave_out_blamed(std::uint32_t epoch, const RankReport& report);
  bool dismiss(std::uint32_t epoch, const RankNumbers& ranks, const std::string& why,
               std::string_view how);
  void dismiss_silent(std::uint32_t epoch, Nanos now);
  void forget_returning(std::uint32_t epoch, Ticket ticket);
  void answer_returned(std::uint32_t epoch, const Rounds& first);
  void lose_rank(std::uint32_t epoch, Ticket ticket);
  void lose(Ticket ticket, std::uint32_t epoch, const RankReport& report);
  void lose_again(std::uint32_t epoch, std::uint32_t rank, const std::string& why);
  void cannot_change(Ticket ticket, std::uint32_t epoch, const std::string& why);
  void want_again(JobState& state);
  bool begin_repair(std::uint32_t epoch, const std::string& why);
  void finish_repair(std::uint32_t epoch);
  void use_next(JobState& state);
  std::uint32_t used_with(std::uint32_t leaving) const;
  void notify_departed(Ticket ticket, std::uint32_t epoch, const std::string& why,
                       const Departure* departed);
  void notify_ended(Ticket ticket, std::uint32_t epoch, const std::string& why,
                    std::optional<std::uint32_t> culprit);

  JobTable& jobs_;
  NewsQueue& news_;
  FaultTimeouts timeouts_;
  std::vector<RankAnswer> answers_;
  std::vector<RankNotification> notifications_;
  std::vector<RepairEvent> repair_events_;
};

}  // namespace tally::control
