// The control part of a node. It routes each request to the unit that answers it, and it opens and
// ends sessions, which concerns all of these units. Everything here runs on the control thread. The
// data path never waits for it.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/coordinator/rpc/service.h"
#include "control/node/introspection.h"
#include "control/node/job_lifecycle.h"
#include "control/node/jobs/admission.h"
#include "control/node/node_options.h"
#include "control/node/session.h"
#include "control/node/session_endpoints.h"
#include "control/node/session_regions.h"
#include "control/node/session_table.h"
#include "control/node/shards/shard_set.h"
#include "control/probe/service.h"
#include "net/server/service.h"

namespace tally::control {

class Node : public rpc::Service {
 public:
  // io is the control thread's loop. store is for this node as a coordinator. `disconnect` ends a
  // connection that misbehaves. References are borrowed for the node's life; the other arguments
  // are copied.
  Node(NodeOptions options, asio::io_context& io, ShardSet& shards, Store& store,
       std::function<void(rpc::ConnectionId, std::string_view)> disconnect);
  ~Node() override;

  void handle(rpc::ConnectionId connection, rpc::Request& request, rpc::Reply reply) override;
  void closed(rpc::ConnectionId connection) override;

  // Updates which rails are up, for jobs that form from now on.
  void set_rails(std::vector<Rail> rails) { admission_.set_rails(std::move(rails)); }

  // How long a fault may last, as the coordinator of this node has sent it. Sessions that are open
  // keep the deadline that they have.
  void set_fault(Nanos fault);

  bool has_sessions() const { return !sessions_.empty(); }

  // -- Requests of a coordinator ---------------------------------------------------------------
  // Places a job instance here. Calls `then` when the shards know the job and are connected with
  // the parent nodes, or with an error. When the node has no room, place() calls `then` before it
  // returns.
  void place(const JobAssignment& placement, std::function<void(const Outcome&)> then) {
    jobs_.place(placement, std::move(then));
  }
  // Ends a placed instance for new sessions. An instance without sessions is removed; another one
  // ends with its last session.
  void withdraw(std::uint64_t placement) { jobs_.withdraw(placement); }
  // The callback gets each placement whose instance is over, once.
  void on_over(std::function<void(std::uint64_t placement)> callback) {
    jobs_.on_over(std::move(callback));
  }
  // Forgets the placements' numbers, because the coordinator that gave them is gone. Running jobs
  // continue.
  void forget_placements() { jobs_.forget_placements(); }
  // This node as a coordinator.
  CoordinatorService& coordinator() { return coordinator_; }
  std::uint32_t highest_epoch() const { return admission_.highest_epoch(); }

  // Call this when the node ends. Every shard detaches all sessions before any client sees the end
  // of its connection; then calls `then`. Otherwise the first client to disconnect in response
  // would be reported to the other ranks as the culprit.
  void hang_up(std::function<void()> then);

 private:
  // A request of a client that has a session.
  void handle(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  void open(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void admit(rpc::ConnectionId connection, const Admission::Applicant& applicant,
             const SharedReply& answer);
  void on_job_added(const SharedSession& session, bool is_new, const Outcome& done,
                    const SharedReply& answer);
  void revoke_token(const rpc::Request& request, rpc::Reply reply);
  void prove(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void set_empty(const SharedSession& session, const rpc::Request& request, rpc::Reply reply);
  void close(const SharedSession& session, rpc::Reply reply);
  // Takes the session from all shards, frees its memory and its place in the job, then calls
  // `then`.
  void end(const SharedSession& session, Status why, std::function<void()> then);
  void on_lost(transport::Peer peer);
  void use_timeouts();

  NodeOptions options_;
  ShardSet& shards_;
  std::function<void(rpc::ConnectionId, std::string_view)> disconnect_;
  Admission admission_;
  EndedJobs ended_;
  Introspection introspection_;
  CoordinatorService coordinator_;
  probe::ProbeService probe_;
  SessionTable sessions_;
  SessionEndpoints endpoints_;
  JobLifecycle jobs_;
  SessionRegions regions_;
};

}  // namespace tally::control
