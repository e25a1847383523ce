// Who serves which job: nodes join and leave, jobs are formed over them, each with a plan and an
// epoch of its own. Pure: events and `now` in; act() gives what there is to be said to whom. One
// thread.
//
// A job goes through three stages. *Placing*: its nodes were told, and its ranks wait until all
// have acknowledged. *Running*: ranks hear at once where its trees are. *Over*: a rank or a node is
// gone, or a node refused; no rank comes to it any more, the name may form again, and the rest of
// the nodes are told. It ends when all its nodes have said that it is over there, or have left.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/admission.h"
#include "control/coordinator/placement.h"
#include "control/coordinator/store.h"

namespace tally::control {

inline constexpr std::size_t kMaxMembers = 256;
inline constexpr Nanos kPlacingPatience = 10 * kSecond;  // for a node's acknowledgement
inline constexpr Nanos kMostSilence = 30 * kSecond;      // of a node that should ask for news
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
  // Borrows the store.
  Coordinator(CoordinatorOptions options, Store& store);

  // -- Nodes ---------------------------------------------------------------------------------
  // `epoch`: the largest that was ever placed at the node.
  Result<NodeId> join(const Member& member, std::string_view token, std::uint32_t epoch, Nanos now);
  void leave(NodeId node, std::string_view why);
  // The node's NICs are these from now on: for jobs that form.
  void set_rails(NodeId node, std::vector<Rail> rails);
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
  };
  void open(Ticket ticket, const Opening& opening, Nanos now);
  // The rank is gone, answered or not: another may come in its place.
  void close(Ticket ticket);

  // -- What is to be said --------------------------------------------------------------------
  struct Answer {
    Ticket ticket = 0;
    Result<JobRecord> outcome;  // a record without nodes: there are no members
  };
  struct News {
    NodeId node = 0;
    std::vector<Placement> placements;
    std::vector<std::uint64_t> withdraw;
  };
  struct Actions {
    std::vector<Answer> answers;
    std::vector<News> news;    // of nodes that listened: none of them listens any more
    std::vector<NodeId> lost;  // that were silent for too long, and have left by that
  };
  // After events, and when next_deadline() has come.
  Actions act(Nanos now);
  Nanos next_deadline() const;

  const Store& store() const { return store_; }
  // Jobs that are placed there and not over.
  std::size_t jobs_at(NodeId node) const;

 private:
  enum class Stage : std::uint8_t { kPlacing, kRunning, kOver };
  // How a job of the store stands.
  struct Course {
    Stage stage = Stage::kPlacing;
    Nanos deadline = 0;            // of placing
    std::set<NodeId> unconfirmed;  // that have yet to acknowledge
    std::set<NodeId> nodes;        // that have it
    std::vector<Ticket> by_rank;   // 0: nobody
    std::set<Ticket> waiting;
  };
  struct Listener {
    News news;
    bool listens = false;
    Nanos until = 0;  // it listens; else: it should have listened again
  };

  const ConfiguredJob* configured(const std::string& name) const;
  const JobRecord* current(const std::string& name) const;
  Outcome may_open(const Opening& opening, const JobRecord* job) const;
  Outcome may_form(const Opening& opening) const;
  JobRecord make_record(const Opening& opening);
  const JobRecord& form(const Opening& opening, Nanos now);
  void confirmed(std::uint32_t epoch, NodeId node);
  void gone_from(std::uint32_t epoch, NodeId node, const Error& why);
  void end(std::uint32_t epoch, const Error& why);
  void withdraw_from(NodeId node, std::uint64_t placement, Course& course);
  void forget_if_done(std::uint32_t epoch);
  std::string names(const JobRecord& job, const std::set<NodeId>& nodes) const;

  CoordinatorOptions options_;
  Store& store_;
  std::map<std::uint32_t, Course> courses_;  // by epoch
  std::map<NodeId, Listener> listeners_;
  std::map<Ticket, std::uint32_t> tickets_;  // the epochs that they have to do with
  std::vector<Answer> answers_;
  NodeId last_node_ = 0;
  std::uint64_t last_placement_ = 0;
};

}  // namespace tally::control
