// Who serves which job: nodes join and leave, jobs are formed over them, each with a plan and an
// epoch of its own. Pure: events and `now` in; act() gives what there is to be said to whom. One
// thread.
//
// A job goes through four stages. *Gathering*: where its plan asks which rank is on which machine,
// its ranks wait until all have come. *Placing*: its nodes were told, and its ranks wait until all
// have acknowledged. *Running*: ranks hear at once where its trees are. *Over*: a rank or a node is
// gone, or a node refused; no rank comes to it any more, the name may form again, and the rest of
// the nodes are told. It ends when all its nodes have said that it is over there, or have left.
//
// A job that runs gets another plan when one of its nodes is drained, when nodes have joined, or
// when somebody sets one for it: a version with an epoch of its own, which is *next* until all
// ranks know of it (change.h), and then runs; the one before is *leaving* until no rank has a
// session of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/admission.h"
#include "control/coordinator/change.h"
#include "control/coordinator/layout.h"
#include "control/coordinator/placement.h"
#include "control/coordinator/plans.h"
#include "control/coordinator/store.h"

namespace tally::control {

inline constexpr std::size_t kMaxMembers = 256;
inline constexpr Nanos kPlacingPatience = 10 * kSecond;  // for a node's acknowledgement
inline constexpr Nanos kMostSilence = 30 * kSecond;      // of a node that should ask for news
inline constexpr Nanos kCalm =
    2 * kSecond;  // without nodes that join and NICs that come or go, before running jobs use them
inline constexpr Nanos kNoDeadline = INT64_MAX;

struct CoordinatorOptions {
  std::string token;  // what nodes must show
  bool open_jobs = true;
  std::uint32_t max_jobs = 64;
  std::uint32_t max_ranks = 1024;
  std::uint64_t split_bytes = 256 << 10;
  std::vector<ConfiguredJob> jobs;
};

class Coordinator {
 public:
  // Borrows the store, and takes over from the coordinator that has left something there: numbers
  // go on, plans, speeds and drains stay in force. Its members have left until they join here, its
  // jobs are unknown until they form again, with other epochs; what runs of them runs on.
  Coordinator(CoordinatorOptions options, Store& store);

  // -- Nodes ---------------------------------------------------------------------------------
  // `epoch`: the largest that was ever placed at the node.
  Result<NodeId> join(const Member& member, std::string_view token, std::uint32_t epoch, Nanos now);
  void leave(NodeId node, std::string_view why);
  // That may get trees: all that are not drained. Lost NICs are marked.
  Members usable_members() const;
  // Whose trees of running jobs the node has: machines of their plans, drained or gone.
  std::set<std::string> stood_in_for(NodeId node) const;
  // The node's NICs are these from now on: for jobs that form, and when they have been the same for
  // kCalm, for those that run.
  void set_rails(NodeId node, std::vector<Rail> rails, Nanos now);
  // By name, for plans that are made from now on; also of a member that leaves and comes again. Of
  // others what they declare is in force. An error: one of them is no member; nothing has changed.
  Outcome set_speeds(std::map<std::string, Measured> measured);
  // The node waits for news, until then.
  void listen(NodeId node, Nanos until);

  // What a node says of a placement: that it serves it, or why not (`error`); that it is over.
  struct Report {
    std::uint64_t placement = 0;
    bool over = false;
    std::string error;
  };
  void report(NodeId node, const Report& report);
  // Somebody who says so with the token speaks for that node.
  Outcome speaks_for(NodeId node, std::string_view token) const;

  // -- Ranks ---------------------------------------------------------------------------------
  using Ticket = std::uint64_t;  // of a rank that has asked; never 0, never used twice
  struct Opening {
    std::string job;
    std::string token;
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::string host{};  // that the rank is on, if it says so
  };
  void open(Ticket ticket, const Opening& opening, Nanos now);
  // The rank is gone, answered or not: another may come in its place.
  void close(Ticket ticket);
  // The rank can be told that its job's plan changes. One of the version before never listens.
  void listen(Ticket ticket);
  // What it says of the change to the version of that epoch; `rounds`: with kReady.
  void say(Ticket ticket, std::uint32_t epoch, Change::Report report, const Rounds& rounds);
  // It cannot go over to it.
  void cannot(Ticket ticket, std::uint32_t epoch, const std::string& why);

  // -- Nodes that leave in good order ----------------------------------------------------------
  // The node gets no trees any more, and running jobs' go to others; `undo`: it gets trees again.
  Outcome drain(const std::string& node, bool undo, Nanos now);
  struct Drained {
    NodeId node = 0;
    bool draining = false;
    struct Waiting {
      std::string job;
      std::string what;      // it waits for
      bool gave_up = false;  // until somebody asks again
    };
    std::vector<Waiting> waiting;  // jobs that are there
  };
  Result<Drained> drained(const std::string& node) const;

  // -- Plans ---------------------------------------------------------------------------------
  // For jobs that form from now on; what runs keeps the plan that it has until replan(). `job`: for
  // this one alone; empty: for all that have none of their own. An error says why nodes cannot
  // serve it.
  Outcome set_plan(const std::string& job, MachinePlan plan, Nanos now);
  // Stars by the closed form again.
  void drop_plan(const std::string& job, Nanos now);
  const Plans& plans() const { return plans_; }
  // What the job would form by: the plan that is set, or the closed form for the members that there
  // are; nullptr: all of them are drained.
  std::shared_ptr<const SetPlan> in_force(const std::string& job) const;
  // Jobs that run go over to the plan in force, as soon as it can be: this one; empty: all.
  void replan(const std::string& job);
  // The job that runs or forms under that name; nullptr: none.
  const JobRecord* current(const std::string& name) const;

  // -- How jobs stand --------------------------------------------------------------------------
  struct Progress {
    std::string name;
    std::uint32_t epoch = 0;
    std::uint64_t plan_epoch = 0;
    bool by_file = false;     // its plan is one that somebody has set
    std::uint32_t ranks = 0;  // that it has, and that have come
    std::uint32_t come = 0;
    std::vector<std::string> nodes;  // where it has trees; none: not yet placed
    // "gathering", "placing", "running", "changing", or "ending": over, but not at all its nodes.
    std::string_view stage;
    std::string waits_for;  // ranks, or nodes, or what its change waits for
    std::string trouble;    // why its last change came to nothing
  };
  std::vector<Progress> progress() const;  // of all jobs, by epoch

  // -- What is to be said --------------------------------------------------------------------
  struct Answer {
    Ticket ticket = 0;
    Result<JobRecord> outcome;  // a record without nodes: there are no members
    std::uint32_t rank = 0;     // who asked
  };
  struct News {
    NodeId node = 0;
    std::vector<Placement> placements;
    std::vector<std::uint64_t> withdraw;
  };
  // To a rank that listens.
  struct Telling {
    Ticket ticket = 0;
    std::uint32_t rank = 0;
    Change::Word word = Change::Word::kPrepare;
    JobRecord version;  // the next; with kPrepare whole, else its epoch
    Rounds rounds{};    // with kDecided
    std::string why{};  // with kCalledOff
  };
  struct Actions {
    std::vector<Answer> answers;
    std::vector<Telling> tellings;
    std::vector<News> news;    // of nodes that listened: none of them listens any more
    std::vector<NodeId> lost;  // that were silent for too long, and have left by that
  };
  // After events, and when next_deadline() has come.
  Actions act(Nanos now);
  Nanos next_deadline() const;

  const Store& store() const { return store_; }
  // Jobs that are placed there and not over.
  std::size_t jobs_at(NodeId node) const;
  // That the node is in, of those jobs.
  std::size_t trees_at(NodeId node) const;

 private:
  enum class Stage : std::uint8_t { kGathering, kPlacing, kRunning, kNext, kLeaving, kOver };
  // Of a job that runs: its plan laid out anew, or that in force, which brings both.
  enum class Wanted : std::uint8_t { kNothing, kOwnPlan, kPlanInForce };
  // How a job of the store stands.
  struct Course {
    Stage stage = Stage::kGathering;
    Nanos deadline = 0;              // of placing, while nodes are unconfirmed
    std::set<NodeId> unconfirmed;    // that have yet to acknowledge
    std::set<NodeId> nodes;          // that have it
    std::vector<Ticket> by_rank;     // 0: nobody
    std::vector<std::string> hosts;  // by rank
    std::set<Ticket> waiting;
    bool deserted = false;  // a rank has gone: its nodes are about to say that it is over
    // Of a change to another version.
    Wanted wanted = Wanted::kNothing;  // as soon as it can be
    std::uint32_t next = 0;            // its epoch; 0: there is none
    std::optional<Change> change{};    // begins when all nodes have taken it
    std::set<NodeId> released{};       // while leaving: where a rank has left it already
    std::string trouble{};             // why the last attempt came to nothing
  };
  struct Listener {
    News news;
    bool listens = false;
    Nanos until = 0;  // it listens; else: it should have listened again
  };

  const ConfiguredJob* configured(const std::string& name) const;
  Outcome may_open(const Opening& opening, const JobRecord* job) const;
  Outcome may_form(const Opening& opening) const;
  JobRecord make_record(const Opening& opening);
  std::uint32_t form(const Opening& opening);
  Result<Layout> lay_out_job(const JobRecord& job, const SetPlan* plan) const;
  void take_over();
  Members known_members() const;
  bool matters(const Member& departed) const;
  void remember_departed(NodeId node, const Member& member);
  void forget_departed();
  bool is_drained_when_it_comes(const std::string& name) const;
  void erase_departed(const std::string& name);
  bool may_place(const JobRecord& job) const;
  void place_gathered(Nanos now);
  void place(std::uint32_t epoch, Nanos now);
  std::vector<Neighbour> neighbours(const JobRecord& job, const Member& from,
                                    const std::vector<LaneOf>& lanes) const;
  Placement placement_of(const JobRecord& job, const PlanNode& one) const;
  void note_plan(JobRecord& job, const std::shared_ptr<const SetPlan>& plan) const;
  void give_plan(JobRecord& job, const std::shared_ptr<const SetPlan>& plan, Layout layout);
  std::shared_ptr<const SetPlan> closed_form() const;
  void ask_nodes(const JobRecord& job, Course& course, Stage stage, Nanos now);
  void answer(Ticket ticket, Result<JobRecord> outcome, std::uint32_t rank);
  void confirmed(std::uint32_t epoch, NodeId node);
  bool is_alive(const Course& course) const;
  bool all_listen(const Course& course) const;
  void want(Course& course, Wanted wanted);
  void renew_in_force();
  void begin_changes(Nanos now);
  void begin_change(std::uint32_t epoch, Nanos now);
  void settle_change(std::uint32_t epoch);
  void fail_next(std::uint32_t epoch, const std::string& why);
  std::uint32_t changing(Ticket ticket, std::uint32_t epoch, std::uint32_t& rank) const;
  void lose_rank(std::uint32_t epoch, Ticket ticket);
  Drained::Waiting waiting_for(std::uint32_t epoch) const;
  void say_how_it_runs(std::uint32_t epoch, Progress& progress) const;
  void gone_from(std::uint32_t epoch, NodeId node, const Error& why);
  void end(std::uint32_t epoch, const Error& why);
  void end_other_versions(std::uint32_t epoch, const Error& why);
  void withdraw_from(NodeId node, std::uint64_t placement, Course& course);
  void forget_if_done(std::uint32_t epoch);
  std::string names(const JobRecord& job, const std::set<NodeId>& nodes) const;
  Member with_measured(Member member) const;

  CoordinatorOptions options_;
  Store& store_;
  Plans plans_;
  std::map<std::uint32_t, Course> courses_;  // by epoch
  std::map<NodeId, Listener> listeners_;
  std::map<Ticket, std::uint32_t> tickets_;  // the epochs that they have to do with
  std::set<Ticket> listening_;               // that can be told of changes
  Nanos calm_ = kNoDeadline;                 // when running jobs use the nodes and NICs there are
  std::vector<Answer> answers_;
  std::vector<Telling> tellings_;
};

}  // namespace tally::control
