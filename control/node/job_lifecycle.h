// The life of job instances at this node: the shards learn of an instance, it is connected with its
// parent nodes, it becomes over, and it is removed with its last session. A coordinator assigns
// instances; other instances begin with their first session. Admission keeps the instances, and the
// owner of this class ends sessions when it is asked to. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <utility>

#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/records/job_assignment.h"
#include "control/node/jobs/admission.h"
#include "control/node/reports/ended_jobs.h"
#include "control/node/shards/shard_set.h"
#include "control/node/tree/parent_connections.h"

namespace tally::control {

class JobLifecycle {
 public:
  struct Options {
    std::string node;                     // this node's name
    net::tls::Credentials credentials{};  // what it shows to parent nodes
    bool serves = false;                  // whether a coordinator can assign jobs here
  };
  // Borrows the loop, the shards, `admission` and `ended`. end_sessions: called when no rank is
  // left below an instance that is over; it ends the sessions of the instance's child nodes.
  JobLifecycle(asio::io_context& io, ShardSet& shards, Admission& admission, EndedJobs& ended,
               const Options& options, std::function<void(JobInstance&)> end_sessions);

  // For connections to parent nodes. It is shorter than the coordinator's limit, so the coordinator
  // learns which node is missing before it gives up.
  void set_parent_timeout(Nanos timeout) { parent_timeout_ = timeout; }

  // Adds the instance to the shards, then calls `then`.
  void add(const JobInstance& instance, WorkDone then);
  // Removes the member; the instance is then over. Removes the instance with its last member.
  void leave(JobInstance& instance, std::uint32_t member);
  // No session can join the instance from now on.
  void set_over(JobInstance& instance);
  // The same, for an instance whose work is done or not wanted. It is removed when no session has
  // joined it; otherwise it ends with its last session.
  void finish(JobInstance& instance);

  // The requests of a coordinator, as Node has them.
  void place(const JobAssignment& placement, std::function<void(const Outcome&)> then);
  void withdraw(std::uint64_t placement);
  void on_over(std::function<void(std::uint64_t placement)> callback) {
    on_over_ = std::move(callback);
  }
  void forget_placements();

  // Cancels all waits for connections to parent nodes, when the node ends.
  void give_up() { parent_connections_.give_up(); }

 private:
  void on_placed(std::uint64_t identity, const Outcome& outcome);
  void on_parent_lost(protocol::JobId job_id, const std::string& node);
  // Reports to the parent nodes which vertices have no rank left below them. When that is so for
  // all vertices, asks for the end of the sessions that remain.
  void settle(JobInstance& instance);
  void report_over(JobInstance& instance);
  // Precondition: no session has joined the instance, and none can.
  void drop(JobInstance& instance);
  // Precondition: the instance has no members.
  void remove(JobInstance& instance);
  void keep_post_mortem(const JobInstance& instance);
  void watch_unclaimed();

  ShardSet& shards_;
  Admission& admission_;
  EndedJobs& ended_;
  std::function<void(JobInstance&)> end_sessions_;
  std::function<void(std::uint64_t)> on_over_;
  asio::steady_timer timeout_;  // expires when placements may have been unclaimed too long
  bool watching_ = false;
  Nanos parent_timeout_ = FaultTimeouts{}.parent_connection();
  ParentConnections parent_connections_;
};

}  // namespace tally::control
