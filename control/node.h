// The node's control: sessions come and go, regions are mapped, jobs are admitted; the shards are
// told. Everything here runs on the control thread. The data path never waits for it.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/admission.h"
#include "control/coordinator/service.h"
#include "control/helper_threads.h"
#include "control/introspection.h"
#include "control/probe/service.h"
#include "control/rpc/params.h"
#include "control/rpc/service.h"
#include "control/shard_set.h"
#include "control/uplinks.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::control {

// Where workers on other machines find the shards' endpoints.
struct FabricOffer {
  std::string provider;         // of libfabric
  std::string host;             // where they are bound
  std::size_t eager_bytes = 0;  // that may come behind a notice
};
struct VerbsOffer {
  std::string device;
  std::string gid;
  std::uint8_t ack_timeout = transport::verbs::kAckTimeout;  // for both ends
};

struct NodeOptions {
  NodeFacts facts;
  std::uint64_t split_bytes = 256 << 10;  // operations from here on go to all shards of their job
  std::uint32_t credit = 256;
  std::uint32_t default_deadline_ms = 60'000;  // of operations; clients wait a little longer
  bool checksums = false;                      // the shards check them
  AdmissionLimits limits;
  std::optional<FabricOffer> fabric;  // the shards have ports to it
  std::optional<VerbsOffer> verbs;    // likewise
  std::vector<Rail> rails;            // the shards' ports are dealt to them; none: they are not
  std::vector<ConfiguredJob> jobs;
  // As a coordinator, which every node can be.
  std::string cluster_token;
  std::string coordinators;  // cluster.coordinators; empty: it stands alone
  std::function<Standing()> standing = [] { return Standing{}; };
  std::string name;  // of a member
  probe::ProbeOptions probe;
  // Whether a connection is one to the node's Unix socket.
  std::function<bool(rpc::ConnectionId)> is_local = [](rpc::ConnectionId) { return false; };
};

class Node : public rpc::Service {
 public:
  // `io`: the control thread's loop. `store`: of this node as a coordinator. `disconnect` ends a
  // connection that misbehaves. All are borrowed or copied for the node's life.
  Node(NodeOptions options, asio::io_context& io, ShardSet& shards, Store& store,
       std::function<void(rpc::ConnectionId, std::string_view)> disconnect);
  ~Node() override;

  void handle(rpc::ConnectionId connection, rpc::Request request, rpc::Reply reply) override;
  void closed(rpc::ConnectionId connection) override;

  // Which are up has changed: for jobs that form from now on.
  void set_rails(std::vector<Rail> rails) { admission_.set_rails(std::move(rails)); }

  bool has_sessions() const { return !by_connection_.empty(); }

  // -- What a coordinator wants of this node --------------------------------------------------
  // `then` hears when the shards know the forming and are connected with the nodes above, or why
  // they are not; at once where there is no room for it.
  void place(const Placement& placement, std::function<void(const Outcome&)> then);
  // No more ranks join it; without ranks it is gone.
  void withdraw(std::uint64_t placement);
  // Hears once of each placement whose forming is over.
  void on_over(std::function<void(std::uint64_t placement)> callback) {
    on_over_ = std::move(callback);
  }
  // The coordinator that knows the numbers of these placements is gone. What runs, runs on.
  void forget_placements();
  std::uint32_t highest_epoch() const { return admission_.highest_epoch(); }

  // The node ends: every shard lets go of all sessions before a client hears of it, then `then`.
  // Else the first client to hang up in answer would be reported to the other ranks as the one to
  // blame.
  void hang_up(std::function<void()> then);

 private:
  struct Session;
  struct Attempt;
  using SharedSession = std::shared_ptr<Session>;
  using SharedReply = std::shared_ptr<rpc::Reply>;

  // By shard: its lane of the job's sessions.
  std::vector<std::uint32_t> lanes_of(const Forming& forming) const;
  // By shard: its number for this member of the job, or kNobody.
  std::vector<std::uint32_t> numbers_of(const Session& session) const;
  void announce(const Forming& forming, std::function<void()> then);
  void set_over(Forming& forming);
  void tell_over(Forming& forming);
  void drop(Forming& forming);
  void give_up(std::uint64_t placement);
  void end_unclaimed(Forming& forming);
  void settle(Forming& forming);
  void hear_empty(const SharedSession& session, const rpc::Request& request, rpc::Reply reply);
  void on_uplink_lost(std::uint32_t slot, const std::string& node);
  void remove(Forming& forming);
  void watch_placements();

  void open(rpc::ConnectionId connection, rpc::Request& request, rpc::Reply reply);
  void opened(const Session& session, rpc::Reply reply) const;
  void attach(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  void attach_to_network(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  void attach_to_fabric(const SharedSession& session, const rpc::Request& request,
                        rpc::Reply reply);
  void attach_to_verbs(const SharedSession& session, rpc::Params& params, rpc::Reply reply);
  void begin_attaching(const SharedSession& session, const SharedReply& answer,
                       std::function<void()> then);
  void make_queue_pairs(const SharedSession& session,
                        const std::vector<transport::verbs::Address>& clients,
                        const SharedReply& answer);
  void drop(const std::shared_ptr<Attempt>& attempt, const SharedReply& answer);
  void give_up_attaching(const SharedSession& session, const Error& why, const SharedReply& answer);
  template <typename Port, typename Attach>
  void attach_each(const SharedSession& session, const SharedReply& answer,
                   std::unique_ptr<Port> Ports::*port, Attach attach);
  void register_remote(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  // The number that the client wishes for its region, or the lowest that is free.
  std::uint64_t wished_region(rpc::Params& params) const;
  static Result<std::uint32_t> region_number(const Session& session, std::uint64_t wished);
  void close(const SharedSession& session, rpc::Reply reply);
  void register_region(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  void deregister_region(const SharedSession& session, rpc::Request& request, rpc::Reply reply);

  // Takes the session from all shards, then frees its memory and its place in the job.
  void end(const SharedSession& session, Status why, std::function<void()> then);
  // Each shard does `first`, and from then on does not serve the session. `then`: nothing touches
  // its memory any more.
  void let_go(const SharedSession& session, ShardSet::Task first, std::function<void()> then);
  bool is_over(const Session& session) const;
  void on_lost(transport::Peer peer);
  void leave(const SharedSession& session);
  SharedSession session_of(rpc::ConnectionId connection) const;
  std::uint32_t free_number() const;

  NodeOptions options_;
  ShardSet& shards_;
  std::function<void(rpc::ConnectionId, std::string_view)> disconnect_;
  Admission admission_;
  Introspection introspection_;
  CoordinatorService coordinator_;
  probe::ProbeService probe_;
  std::unordered_map<rpc::ConnectionId, SharedSession> by_connection_;
  std::map<std::uint32_t, SharedSession> by_number_;  // until its number may be used again
  bool hung_up_ = false;
  std::function<void(std::uint64_t)> on_over_;
  asio::steady_timer patience_;  // with placements that nobody has claimed
  bool watching_ = false;
  // Queue pairs are made some at a time: who names an address that nobody answers for holds up one
  // thread for a second, and whoever hangs up gives up his turn. They end one after the other: who
  // lets go of a session for the second time waits for the first.
  HelperThreads makers_;
  HelperThreads ender_;
  Uplinks uplinks_;
};

}  // namespace tally::control
