// How the versions of jobs go from stage to stage (coordinator.h has the stages): nodes take
// assignments and drop them, ranks change to the next version, jobs end. It queues news for nodes,
// and answers and notifications for ranks, which the coordinator takes and sends. The coordinator's
// thread calls this, with the time. Precondition of place(), begin_next() and enter(): the version
// exists. Other calls about a version that has ended do nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/coordinator/state/change.h"
#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/members/news_queue.h"

namespace tally::control {

inline constexpr Nanos kPlacingTimeout = 10 * kSecond;  // limit for a node's acknowledgement

struct RankAnswer {
  Ticket ticket = 0;
  Result<SharedJob> outcome;  // a record without nodes when there are no members
  std::uint32_t rank = 0;     // the rank that asked
};

// A message to a rank that listens.
struct RankNotification {
  Ticket ticket = 0;
  std::uint32_t rank = 0;
  Change::Word word = Change::Word::kPrepare;
  std::uint32_t epoch = 0;  // of the next version
  SharedJob version{};      // the next version, with kPrepare
  Rounds rounds{};          // with kDecided
  std::string why{};        // with kCalledOff
};

class JobVersions {
 public:
  // Borrows both.
  JobVersions(JobTable& jobs, NewsQueue& news) : jobs_(jobs), news_(news) {}

  // -- Nodes -----------------------------------------------------------------------------------
  // The gathered job has its plan now: asks its nodes to serve it.
  void place(JobRecord placed, Nanos now);
  // Asks the nodes of a running job's next version to serve it.
  void begin_next(JobRecord next, Nanos now);
  // The node serves the version.
  void confirm(std::uint32_t epoch, NodeId node);
  // The node does not serve the version, or not any more.
  void gone_from(std::uint32_t epoch, NodeId node, const Error& why);
  // The node has joined again and has only these placements: versions that are over have ended
  // there where it has them no more.
  void forget_over(NodeId node, const std::vector<std::uint64_t>& placements);
  // A member has left, and what it served with it.
  void node_left(NodeId node, const Error& why);

  // -- Ranks -----------------------------------------------------------------------------------
  void answer(Ticket ticket, Result<SharedJob> outcome, std::uint32_t rank);
  // The rank takes its place in the version. It is answered at once when the version runs.
  void enter(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  // The rank is gone, answered or not.
  void close(Ticket ticket);
  // Takes the rank's report on the change to the version of that epoch; rounds is used with kReady
  // only.
  void report(Ticket ticket, std::uint32_t epoch, Change::Report report, const Rounds& rounds);
  // The rank cannot change to that version: calls the change off.
  void call_off(Ticket ticket, std::uint32_t epoch, const std::string& why);

  // -- Time ------------------------------------------------------------------------------------
  // Ends the versions that nodes have not acknowledged in time.
  void end_late(Nanos now);
  // Begins the changes whose nodes have acknowledged, and ends those that take too long.
  void advance_changes(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

  // Ends the job in all its versions. It is erased when none of its nodes has it any more.
  void end(std::uint32_t epoch, const Error& why);

  // What to send now; each is returned once.
  std::vector<RankAnswer> take_answers();
  std::vector<RankNotification> take_notifications();

 private:
  void ask_nodes(const JobRecord& job, JobState& state, Nanos now);
  void withdraw(std::uint32_t epoch, JobState& state);
  void notify_ranks(JobState& state);
  void settle_change(std::uint32_t epoch);
  void fail_next(std::uint32_t epoch, const std::string& why);
  void end_other_versions(std::uint32_t epoch, const Error& why);
  void end_when_left(std::uint32_t epoch);
  void lose_rank(std::uint32_t epoch, Ticket ticket);

  JobTable& jobs_;
  NewsQueue& news_;
  std::vector<RankAnswer> answers_;
  std::vector<RankNotification> notifications_;
};

}  // namespace tally::control
