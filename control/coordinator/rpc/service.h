// The coordinator's methods: cluster.* for nodes, job.* for ranks, plan.* and cluster.drain for
// operators. An answer waits until there is something to report, and until the store has settled
// the writes that it depends on. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/access/access.h"
#include "control/coordinator/rpc/plan_methods.h"
#include "control/coordinator/state/coordinator.h"
#include "control/threads/thread_pool.h"
#include "net/rpc/params.h"
#include "net/server/peer.h"
#include "net/server/service.h"

namespace tally::control {

inline constexpr std::uint64_t kMostHoldMs = 10'000;  // of cluster.next and job.next

// A node's own state among coordinators.
struct CoordinatorStatus {
  std::string instance;      // identifies this process among all others
  std::string name;          // cluster.name
  std::string coordinator;   // address of its coordinator; empty: it is no member
  bool is_electing = false;  // it has found no coordinator yet, and may join itself
  bool is_elected = false;   // its coordinators are elected in a store
};

// Makes the plan for members in racks. A thread calls it, one call at a time.
using PlanForRacks = std::function<Result<plan::Plan>(const plan::MachineFile&)>;

struct CoordinatorServiceOptions {
  CoordinatorOptions coordinator;
  // cluster.coordinators of this node. When it is empty, the node is in no cluster, and
  // job.open answers without nodes.
  std::string coordinators;
  // True: this node acts as a coordinator only from begin_term() to end_term(). False: always, when
  // nodes join it.
  bool is_elected = false;
  std::function<CoordinatorStatus()> status = [] { return CoordinatorStatus{}; };
  // The peer of a connection.
  std::function<rpc::Peer(rpc::ConnectionId)> peer_of = [](rpc::ConnectionId) {
    return rpc::Peer();
  };
  // Borrowed.
  Access* access = nullptr;
  PlanForRacks plan_for_racks{};  // empty: the coordinator plans stars alone
};

class CoordinatorService {
 public:
  // `disconnect` ends a connection, also those whose answers a lost store keeps back. Borrows
  // `store` and `io`. A service with is_elected uses `store` while no term lasts; it stays empty.
  CoordinatorService(CoordinatorServiceOptions options, Store& store, asio::io_context& io,
                     std::function<void(rpc::ConnectionId, std::string_view)> disconnect);

  // Handles the methods cluster.*, job.* and plan.*.
  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void closed(rpc::ConnectionId connection);

  // This node has been elected: it takes over the state in `store`, which is borrowed until
  // end_term(). All its messages carry `term`, which is above 0 and higher than that of any
  // coordinator before it.
  void begin_term(Store& store, std::uint64_t term);
  // Ends the connections of nodes and ranks, which then look for the next coordinator.
  void end_term(std::string_view why);

 private:
  // What a node or a rank does on a connection.
  struct Conversation {
    std::optional<NodeId> node;          // the node that has joined on it
    std::string name;                    // the node's name
    std::optional<rpc::Reply> news;      // the node's waiting request for news
    Coordinator::Ticket ticket = 0;      // of the latest job.open
    std::optional<rpc::Reply> opens;     // the waiting job.open
    std::optional<rpc::Reply> asks;      // the waiting job.next
    Nanos asks_until = kForever;         // the answer to that without a message
    std::list<nlohmann::json> messages;  // for the rank's next job.next
    RankRounds rounds;                   // of a report that spans several requests
  };

  // The node must ask, or join again, soon after the store has settled what comes before.
  void expect(NodeId node);
  void lose_rank(Coordinator::Ticket ticket);
  void join(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void next(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void report(const rpc::Request& request, rpc::Reply reply);
  void nodes(const rpc::Request& request, rpc::Reply reply) const;
  void jobs(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) const;
  Caller caller_of(rpc::ConnectionId connection) const;
  Outcome may_show_plan(rpc::ConnectionId connection, const rpc::Request& request) const;
  void coordinator_status(const rpc::Request& request, rpc::Reply reply) const;
  void open(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void next_message(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void report_of_rank(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void leave(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void drain(const rpc::Request& request, rpc::Reply reply);
  void notify_rank(const Coordinator::Notification& notification);
  static void send_next_message(Conversation& caller);
  void end_waits(Nanos now);
  static void log_repair(const RepairEvent& event, Nanos now);
  // Ends the connection on which a node has joined as that number, because it joins again. This end
  // may not know yet that the connection is broken.
  void end_earlier(NodeId was, const std::string& name);
  bool take_reports(NodeId node, const nlohmann::json& params);
  nlohmann::json opened(const JobRecord& job, std::uint32_t rank) const;
  const std::string& opened_text(const SharedJob& job, std::uint32_t rank);

  const FaultTimeouts& timeouts() const { return options_.coordinator.timeouts; }
  void act_over(Store& store, std::uint64_t term);
  // Adds the term to a message, where there is one.
  nlohmann::json with_term(nlohmann::json message) const;
  // All answers go through this gate.
  rpc::Gate gate(rpc::ConnectionId connection);
  void make_plan(RackPlanning::Request request);
  // Sends the messages of Coordinator::act(), and sets the timer for its next deadline.
  void act();
  void set_timer(Nanos now);
  void send_news(const Coordinator::News& news);
  void answer_rank(const Coordinator::Answer& answer);

  CoordinatorServiceOptions options_;
  std::function<void(rpc::ConnectionId, std::string_view)> disconnect_;
  Store& idle_store_;
  Store* store_;
  std::uint64_t term_ = 0;  // 0: no term lasts, or nodes elect no coordinator
  std::optional<Coordinator> coordinator_;
  std::optional<PlanMethods> plans_;
  std::unordered_map<rpc::ConnectionId, Conversation> callers_;
  std::map<NodeId, rpc::ConnectionId> by_node_;
  std::map<Coordinator::Ticket, rpc::ConnectionId> by_ticket_;
  // The job.next requests with a limit, in the order of it; those with an answer too.
  std::set<std::pair<Nanos, rpc::ConnectionId>> waits_;
  // Tickets belong to connections to this process; another coordinator has others, so the store
  // does not keep them.
  Coordinator::Ticket last_ticket_ = 0;
  asio::steady_timer timer_;
  // The last answer to job.open. Ranks with the same parents get the same text; with stars that is
  // all ranks. So one text answers thousands of ranks that ask together.
  struct OpenAnswer {
    std::weak_ptr<const JobRecord> job;
    std::vector<bool> parents;  // by vertex, in the order of the job's nodes
    std::string text;
  };
  OpenAnswer last_answer_;
  asio::io_context& io_;
  std::uint64_t act_terms_ = 0;  // how often this service began to act over a store
  // Makes plans. The last member, because its thread must end first; null until it has work.
  std::unique_ptr<ThreadPool> planner_;
};

}  // namespace tally::control
