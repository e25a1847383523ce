// The coordinator: which nodes serve which job. Nodes join and leave. The coordinator forms jobs
// over them, each with a plan and an epoch of its own. Pure: events and `now` in; act() returns the
// messages to send. One thread.
//
// A job goes through four stages. *Gathering*: when its plan depends on the ranks' machines, its
// ranks wait until all have asked. *Placing*: the nodes have their placements, and the ranks wait
// until all nodes have acknowledged. *Running*: a rank that asks gets the locations of the trees at
// once. *Over*: a rank or a node has left, or a node refused. No further rank joins the job, its
// name may form again, and the remaining nodes are notified. The job ends when each of its nodes
// has reported that it is over there, or has left.
//
// A running job whose node is lost is *repaired* where all its ranks can: it gets a next version
// over the members that are left, and the lost one ends when all ranks know of that. Where they
// cannot, the job is over.
//
// A running job gets another plan when one of its nodes is drained, when nodes have joined, or when
// an operator sets one. The new plan is a version with an epoch of its own. It is *next* until all
// ranks know of it (change.h), and then runs. The version before it is *leaving* until no rank has
// a session of it.
//
// The units below decide. This class passes each event to those that it concerns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/layout/layout.h"
#include "control/coordinator/records/configured_job.h"
#include "control/coordinator/records/store.h"
#include "control/coordinator/state/change.h"
#include "control/coordinator/state/jobs/job_planner.h"
#include "control/coordinator/state/jobs/job_repairs.h"
#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/jobs/job_versions.h"
#include "control/coordinator/state/jobs/plan_changes.h"
#include "control/coordinator/state/jobs/progress.h"
#include "control/coordinator/state/jobs/rack_planning.h"
#include "control/coordinator/state/jobs/rank_admission.h"
#include "control/coordinator/state/members/cluster_members.h"
#include "control/coordinator/state/members/departed_members.h"
#include "control/coordinator/state/members/heartbeats.h"
#include "control/coordinator/state/members/news_queue.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

struct CoordinatorOptions {
  bool open_jobs = true;
  std::uint32_t max_jobs = 64;
  std::uint32_t max_ranks = 1024;
  std::uint64_t split_bytes = 256 << 10;
  std::vector<ConfiguredJob> jobs;
  FaultTimeouts timeouts;
  bool plans_racks = false;  // the caller makes the plans of Actions::plan
};

// What a node that joins still has from an earlier membership.
struct ReturningNode {
  NodeId was = 0;  // its number there
  std::vector<std::uint64_t> placements;
};

class Coordinator {
 public:
  using Ticket = control::Ticket;
  using Opening = control::Opening;
  using Progress = JobProgress;
  using Answer = RankAnswer;
  using News = NodeNews;
  using Notification = RankNotification;

  // Borrows the store, and takes over the state that an earlier coordinator left there: numbering
  // continues; plans, speeds and drains stay in force. Members of that state count as departed
  // until they join here. Its running jobs continue; their nodes are awaited. Jobs that no rank
  // uses yet are unknown, and form again with other epochs.
  Coordinator(CoordinatorOptions options, Store& store, Nanos now = 0);
  Coordinator(const Coordinator&) = delete;  // its units refer to each other

  const ClusterMembers& members() const { return members_; }
  const JobTable& jobs() const { return jobs_; }
  const Plans& plans() const { return plans_; }

  // -- Nodes ---------------------------------------------------------------------------------
  // Adds a member. epoch is the largest epoch of any job that was placed at the node. A node that
  // is awaited keeps its number and the placements that it still has.
  Result<NodeId> join(const Member& member, std::uint32_t epoch, Nanos now,
                      const ReturningNode& returning = {});
  void leave(NodeId node, std::string_view why);
  // The node is no member any more, and is awaited: until node_return() has passed, it may join
  // again without harm to its jobs.
  void await(NodeId node, Nanos now);
  // Sets the node's NICs. Jobs that form from now on use them; running jobs use them when they have
  // not changed for kCalm.
  void set_rails(NodeId node, std::vector<Rail> rails, Nanos now);
  // Sets measured speeds (ClusterMembers::set_speeds()), for plans made from now on.
  Outcome set_speeds(std::map<std::string, Measured> measured);
  // The node waits for news until then.
  void listen(NodeId node, Nanos until);
  // The node has an answer, and must listen within heartbeat(); an awaited node must join
  // within node_rejoin(). A node that does not is silent: jobs that can be repaired leave it, and
  // it gets no trees until it listens again.
  void expect(NodeId node, Nanos now);

  // A node's report on a placement: it serves the placement (`error` is empty), it cannot (`error`
  // says why), or the placement is over there.
  struct Report {
    std::uint64_t placement = 0;
    bool over = false;
    std::string error;
  };
  void report(NodeId node, const Report& report);

  // -- Ranks ---------------------------------------------------------------------------------
  // Whether what the rank shows is enough for open() (RankAdmission::unlocks()).
  Outcome unlocks(const Opening& opening) const { return admission_.unlocks(opening, jobs_); }
  void open(Ticket ticket, const Opening& opening, Nanos now);
  // The rank has one of these versions of its job, and lost its coordinator. It takes its place at
  // this one. The answer says which version the job has. Errors as of RankAdmission::may_resume().
  void resume(Ticket ticket, const Opening& opening, const std::vector<std::uint32_t>& epochs);
  // The rank is gone, answered or not; another one may take its place. how: for the ranks that a
  // repair keeps waiting.
  void close(Ticket ticket) { versions_.close(ticket, "has left"); }
  // The rank's connection has ended. It may resume its job until then, and where this coordinator
  // has taken the job over.
  void lose(Ticket ticket, Nanos resume_until = 0) {
    versions_.lose_connection(ticket, resume_until);
  }
  // The rank can be notified when its job's plan changes; repairs: it can be repaired too. A rank
  // of the previous libtally version never listens.
  void listen(Ticket ticket, bool repairs = false) { jobs_.listen(ticket, repairs); }
  // Takes the rank's report on the change to the version of that epoch, or on the loss of it.
  void report(Ticket ticket, std::uint32_t epoch, const RankReport& report) {
    versions_.report(ticket, epoch, report);
  }

  // -- Nodes that leave in good order ----------------------------------------------------------
  // Drains the node: it gets no trees any more, and its trees of running jobs go to other nodes.
  // undo: it gets trees again.
  Outcome drain(const std::string& node, bool undo, Nanos now);
  struct Drained {
    NodeId node = 0;
    bool draining = false;
    std::vector<DrainingJob> waiting;  // jobs that have trees at the node
  };
  Result<Drained> drained(const std::string& node) const;

  // -- Plans ---------------------------------------------------------------------------------
  // Sets a plan for jobs that form from now on. A running job keeps its plan until replan(). job:
  // only the job of this name; empty: all jobs without a plan of their own. An error says why nodes
  // cannot serve the plan.
  Outcome set_plan(const std::string& job, MachinePlan plan, Nanos now);
  // Returns to the coordinator's own plan.
  void drop_plan(const std::string& job, Nanos now);
  // The plan by which the job would form now (JobPlanner::in_force()).
  std::shared_ptr<const SetPlan> in_force(const std::string& job) const {
    return planner_.in_force(job);
  }
  // Changes running jobs to the plan in force, as soon as each can change: only this job; empty:
  // all.
  void replan(const std::string& job) { changes_.want_plan_in_force(job); }

  // The plan of Actions::plan is made, or an error says why it cannot be. Returns whether it is
  // in force. Running jobs without an operator's plan then change to it.
  bool planned(std::uint64_t number, Result<plan::Plan> plan, Nanos now);

  std::vector<Progress> progress() const { return progress_of(jobs_); }  // of all jobs, by epoch

  // -- Messages to send -----------------------------------------------------------------------
  struct Actions {
    std::vector<Answer> answers;
    std::vector<Notification> notifications;
    std::vector<News> news;            // for nodes that listened; each must listen again
    std::vector<std::string> silent;   // names of nodes that are silent, to log
    std::vector<NodeId> lost;          // nodes that were silent for too long; they have left
    std::vector<RepairEvent> repairs;  // to log
    // A plan to make on another thread, for planned(). Until then jobs have stars.
    std::optional<RackPlanning::Request> plan;
  };
  // The messages to send. Call this after events, and at next_deadline().
  Actions act(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

 private:
  void take_back(NodeId node, const std::vector<std::uint64_t>& placements);
  void place_gathered(Nanos now);
  Error cannot_place(const Error& why, Nanos now) const;
  void begin_change(std::uint32_t epoch, Nanos now);
  void advance_repairs(Nanos now);
  void members_changed(Nanos now, Nanos calm = kCalm);
  std::vector<std::string> take_silent(Nanos now);

  Store& store_;
  const FaultTimeouts timeouts_;
  const Nanos return_until_;  // members of an earlier coordinator may return until then
  Plans plans_;
  DepartedMembers departed_;
  ClusterMembers members_;
  NewsQueue news_;
  Heartbeats heartbeats_;
  std::map<NodeId, std::string> awaited_;  // names of nodes that may join again
  bool has_returned_ = false;              // a node that was silent listens again
  JobTable jobs_;
  RankAdmission admission_;
  RackPlanning racks_;
  JobPlanner planner_;
  JobVersions versions_;
  PlanChanges changes_;
  JobRepairs repairs_;
};

}  // namespace tally::control
