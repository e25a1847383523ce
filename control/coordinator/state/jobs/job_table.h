// The jobs of the cluster: the state of each version of a job, by epoch, and the ranks that have a
// place in it. The store has the record of each version. Other units decide how a job goes on; this
// one finds jobs, ranks and loads. The coordinator's thread calls this; no call fails.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/coordinator/records/store.h"
#include "control/coordinator/state/change.h"

namespace tally::control {

using Ticket = std::uint64_t;  // identifies a rank that has asked; never 0, never reused

enum class JobStage : std::uint8_t {
  kGathering,
  kPlacing,
  kRunning,
  kRepairing,
  kNext,
  kLeaving,
  kOver
};

// The change that a running job still needs: a new layout of its own plan, or the plan in force,
// which implies a new layout.
enum class Wanted : std::uint8_t { kNothing, kOwnPlan, kPlanInForce };

// The repair of a version that is lost.
struct Repair {
  std::string why;                     // the version is lost
  Nanos since = 0;                     // 0: the repair has just begun
  std::uint32_t attempts = 0;          // that have failed
  std::optional<Nanos> attempt_at{0};  // the next attempt; nullopt: the last one has just failed
  RankNumbers reported{};              // ranks that have reported the loss
  RankNumbers blamed{};                // ranks whose sessions at nodes have ended, as others report
  Nanos answer_until = kForever;       // until when ranks must answer the attempt that is under way
};

// A rank that has gone, and how: "died or lost its connection to the coordinator".
struct Departure {
  std::uint32_t rank = 0;
  std::string how;
};

// The state of one version of a job.
struct JobState {
  JobStage stage = JobStage::kGathering;
  Nanos deadline = 0;              // limit of placing, while nodes are unconfirmed
  std::set<NodeId> unconfirmed;    // nodes that have not acknowledged yet
  std::set<NodeId> nodes;          // nodes that have it
  std::vector<Ticket> by_rank;     // 0 when no rank has asked
  std::vector<std::string> hosts;  // by rank
  std::set<Ticket> waiting;        // ranks without an answer
  // The first rank that has left: the nodes are about to report that the job is over.
  std::optional<Departure> departed{};
  // Ranks that have lost their connections to this coordinator, and may resume the version. The
  // first one counts as departed when the time for that is over.
  std::vector<Departure> missing{};
  // An earlier coordinator had this version, or ranks have lost their connections to this one: they
  // may resume it until then; 0: all have, or the time is over.
  Nanos resume_until = 0;
  // Ranks without a place: those that the version leaves out, and those that the job has lost since
  // and that its next version leaves out.
  RankNumbers absent{};
  // Of these, the ranks that have opened the job again. They wait for a version with a place.
  std::map<std::uint32_t, Ticket> returning{};
  // The fields below are for a change to another version.
  Wanted wanted = Wanted::kNothing;  // begins as soon as possible
  std::uint32_t next = 0;            // epoch of the next version; 0 when there is none
  std::optional<Change> change{};    // begins when all nodes have acknowledged the next version
  std::set<NodeId> released{};       // nodes that have ended it already, because a rank has left;
                                     // while it leaves, is repaired, or can be repaired
  std::string trouble{};             // why the last attempt failed
  std::optional<Repair> repair{};    // while repairing

  // Whether the job's name stands for this version: not while it is next, leaving or over.
  bool is_alive() const;
  std::optional<std::uint32_t> rank_of(Ticket ticket) const;
  bool is_missing(std::uint32_t rank) const;
  // The ranks whose place is free.
  std::vector<std::uint32_t> missing_ranks() const;
  // The absent ranks that are not returning.
  RankNumbers still_absent() const;
};

// What a node has of the jobs that are not over.
struct NodeLoad {
  std::size_t jobs = 0;   // those that are placed at it
  std::size_t trees = 0;  // the trees that it takes part in
  // The machines of running jobs' plans, drained or gone, whose trees it has.
  std::set<std::string> stands_in_for;
};

class JobTable {
 public:
  // Borrows the store, and takes over the running jobs that an earlier coordinator left there: at
  // all their nodes, and without ranks, which may resume them until then. Erases the others, which
  // no rank uses yet or any more.
  explicit JobTable(Store& store, Nanos resume_until = 0);

  // -- Versions --------------------------------------------------------------------------------
  // Adds a version, with free places for its ranks. Its epoch is new.
  JobState& add(JobRecord record);
  // Replaces the version's record.
  void update(JobRecord record);
  // Notes in the record whether ranks may use the version.
  void set_runs(std::uint32_t epoch, bool runs);
  // Erases the version, and frees the places of its ranks.
  void erase(std::uint32_t epoch);
  std::map<std::uint32_t, JobState>& states() { return states_; }
  const std::map<std::uint32_t, JobState>& states() const { return states_; }
  JobState* find(std::uint32_t epoch);  // nullptr when there is none
  const JobState* find(std::uint32_t epoch) const;
  // Precondition: the version exists.
  const SharedJob& record(std::uint32_t epoch) const { return store_.jobs().at(epoch); }
  // The job that runs or forms under that name; nullptr when there is none.
  const JobRecord* current(const std::string& name) const;
  std::size_t alive() const;  // how many jobs form or run
  // The version that has this placement, while the node has it; nullopt when there is none.
  std::optional<std::uint32_t> placed_at(NodeId node, std::uint64_t placement) const;
  NodeLoad load_of(NodeId node) const;

  // -- Ranks -----------------------------------------------------------------------------------
  // Gives the ticket the rank's place. Precondition: the place is free.
  void take_place(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  // The ticket is of an absent rank of the version that returns, and has no place there yet.
  void await_place(Ticket ticket, std::uint32_t epoch, std::uint32_t rank, const std::string& host);
  bool has_place(Ticket ticket) const { return places_.contains(ticket); }
  // The version in which the ticket has a place, or waits for one; nullopt: in none.
  std::optional<std::uint32_t> version_of(Ticket ticket) const;
  // Erases the ticket. Returns the epoch of its job, whose by_rank still names the ticket; nullopt
  // when it has no place.
  std::optional<std::uint32_t> erase_ticket(Ticket ticket);
  // The first rank that has gone from the ticket's job, also when the job is over; nullptr when
  // none has.
  const Departure* departed_from(Ticket ticket) const;
  // The ranks of the version `from` have their places in its next version from now on. Those that
  // return get places there, or wait on.
  void move_ranks(JobState& from);
  // The rank can be notified when its job's plan changes; repairs: it can be repaired too. Does
  // nothing when it has no place.
  void listen(Ticket ticket, bool repairs = false);
  // The ranks that cannot be notified of changes; repairs: that cannot be repaired.
  std::vector<std::uint32_t> ranks_not_listening(const JobState& state, bool repairs = false) const;
  // Whether no rank has left the version, and all its ranks can be repaired, or may still resume
  // it.
  bool is_repairable(const JobState& state) const;

  // A rank whose job is changing.
  struct ChangingRank {
    std::uint32_t from = 0;  // epoch of the version that the job changes from
    std::uint32_t rank = 0;
  };
  // nullopt: the rank's job is not changing to the version of that epoch.
  std::optional<ChangingRank> changing(Ticket ticket, std::uint32_t epoch) const;

 private:
  void take_over(const JobRecord& job, Nanos resume_until);

  Store& store_;
  std::map<std::uint32_t, JobState> states_;  // by epoch
  std::map<Ticket, std::uint32_t> places_;    // epoch of each ticket's job
  std::map<Ticket, Departure> departed_;      // of tickets whose job is over and erased
  std::map<Ticket, bool> listening_;          // ranks that can be notified of changes; true: that
                                              // can be repaired
};

// "\"a\", \"b\"": those nodes of the job.
std::string name_nodes(const JobRecord& job, const std::set<NodeId>& nodes);

}  // namespace tally::control
