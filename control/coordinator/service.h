// The coordinator's methods: cluster.* of nodes, job.* of ranks, plan.* and cluster.drain of
// operators. Answers are held until there is something to say, and until the store has settled what
// they follow from. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "control/coordinator/coordinator.h"
#include "control/coordinator/plan_methods.h"
#include "control/rpc/params.h"
#include "control/rpc/service.h"

namespace tally::control {

// What a node says of its own place among coordinators.
struct Standing {
  std::string instance;      // tells this process from all others
  std::string name;          // cluster.name
  std::string coordinator;   // the address where it is a member; empty: nowhere
  bool is_electing = false;  // it has found none yet, and may join itself
};

struct CoordinatorServiceOptions {
  CoordinatorOptions coordinator;
  std::uint32_t default_deadline_ms = 60'000;  // of operations
  // cluster.coordinators of this node; empty: it stands alone, and tells ranks so.
  std::string coordinators;
  std::function<Standing()> standing = [] { return Standing{}; };
};

class CoordinatorService {
 public:
  // `disconnect` ends a connection; those whose answers a lost store keeps back, too. Borrows
  // `store` and `io`.
  CoordinatorService(CoordinatorServiceOptions options, Store& store, asio::io_context& io,
                     std::function<void(rpc::ConnectionId, std::string_view)> disconnect);

  // Methods cluster.*, job.* and plan.*.
  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void closed(rpc::ConnectionId connection);

 private:
  // A connection that a node or a rank has used.
  struct Caller {
    std::optional<NodeId> node;       // that has joined on it
    std::string name;                 // of that
    std::optional<rpc::Reply> news;   // is waited for
    Coordinator::Ticket ticket = 0;   // of the last job.open
    std::optional<rpc::Reply> opens;  // waits for its answer
    std::optional<rpc::Reply> asks;   // job.next, likewise
    std::list<nlohmann::json> words;  // for the rank that asks
    Rounds rounds;                    // of a report that comes in several requests
  };

  void join(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void next(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void report(const rpc::Request& request, rpc::Reply reply);
  void nodes(const rpc::Request& request, rpc::Reply reply) const;
  void jobs(const rpc::Request& request, rpc::Reply reply) const;
  void say_coordinator(const rpc::Request& request, rpc::Reply reply) const;
  void open(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void next_word(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void report_of_rank(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void leave(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void drain(const rpc::Request& request, rpc::Reply reply);
  void tell_word(const Coordinator::Telling& telling);
  static void say_word(Caller& caller);
  bool take_reports(NodeId node, const nlohmann::json& params);
  nlohmann::json opened(const JobRecord& job, std::uint32_t rank) const;

  // Nothing is said but through it.
  rpc::Gate gate(rpc::ConnectionId connection);
  // Says what there is to be said, and comes back when there may be more.
  void act();
  void tell_news(const Coordinator::News& news);
  void tell_rank(const Coordinator::Answer& answer);

  CoordinatorServiceOptions options_;
  std::function<void(rpc::ConnectionId, std::string_view)> disconnect_;
  Store& store_;
  Coordinator coordinator_;
  PlanMethods plans_;
  std::unordered_map<rpc::ConnectionId, Caller> callers_;
  std::map<NodeId, rpc::ConnectionId> by_node_;
  std::map<Coordinator::Ticket, rpc::ConnectionId> by_ticket_;
  // Of connections to this process: another coordinator has others, so no store needs to know.
  Coordinator::Ticket last_ticket_ = 0;
  asio::steady_timer timer_;
};

}  // namespace tally::control
