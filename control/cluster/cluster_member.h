// This node as a member of a cluster. It joins a coordinator, receives placements, and reports
// their outcome. When the coordinator is lost, the node joins it again, or another one. Running
// jobs continue meanwhile. Where coordinators are elected, the next one knows the placements: the
// node reports which of them it still has. It refuses a coordinator of a lower term than the
// highest that it knows.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system/fd.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/cluster/coordinator_search.h"
#include "control/config/config.h"
#include "control/node/node.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

// The address at which clients reach this node. A node that listens on every interface uses its
// address on the network by which it reached the coordinator, or its host's name.
std::string reachable_tcp(std::string_view listening, std::string_view local_host,
                          std::string_view host_name);

class ClusterMember {
 public:
  struct Options {
    ClusterConfig cluster;
    std::string tcp;           // where the node listens; empty: not on TCP
    std::string local;         // unix:/path
    std::uint32_t shards = 1;  // shards that serve one job
    std::vector<Rail> rails{};
    net::tls::Credentials credentials{};  // what this node shows to coordinators
    FaultTimeouts timeouts{};             // until it has joined a coordinator, which has its own
  };
  // io is the control thread's loop; ClusterMember calls `node` there. Both are borrowed. `node`
  // must live until stop(), and this object until `node` is gone.
  ClusterMember(Options options, asio::io_context& io, Node& node);
  ~ClusterMember();
  ClusterMember(const ClusterMember&) = delete;
  ClusterMember& operator=(const ClusterMember&) = delete;

  // Reports to the coordinator which rails are up. Any thread.
  void set_rails(std::vector<Rail> rails);
  // A coordinator has been elected, with that term. This node leaves one of a lower term. Any
  // thread.
  void set_term(std::uint64_t term);
  // Ends the membership. The coordinator notices it by the end of the connection. Control thread
  // only.
  void stop();
  // Any thread.
  CoordinatorStatus status() const;

 private:
  // Identifies a membership: from the coordinator's answer to join until the connection is lost. 0
  // means none.
  using Membership = std::uint64_t;
  struct Report {
    std::uint64_t placement = 0;
    bool over = false;
    std::string error;
  };
  // A connection that stop() shuts down while a thread waits on it.
  class Interruptible;

  void listen_for_news();
  std::optional<std::string> find_coordinator();
  std::vector<CoordinatorAnswer> ask_all();
  void set_electing(bool electing);
  bool be_member_at(const std::string& address);
  // Sets `had` to the placements that it has.
  nlohmann::json introduction(const rpc::RpcChannel& channel, std::set<std::uint64_t>& had);
  std::uint64_t least_term() const;
  bool elects() const;  // whether the coordinators of this cluster are elected, as far as known
  Outcome check_term(const nlohmann::json& message);
  Membership begin_membership(const std::string& address, std::uint64_t node, std::uint64_t term,
                              const std::set<std::uint64_t>& had);
  void end_membership();
  void take(const nlohmann::json& news, Membership membership);
  void complain(const std::string& address, const Error& error);
  void use_timeouts(Nanos fault);
  void log_joined(const std::string& address, std::uint64_t term) const;

  void send_reports();
  Outcome send(rpc::RpcChannel& channel, std::uint64_t node, const std::vector<Report>& batch,
               const std::vector<Rail>* rails);
  std::vector<Rail> reachable(std::vector<Rail> rails) const;

  // Control thread only.
  void apply(const std::vector<JobAssignment>& placements,
             const std::vector<std::uint64_t>& withdraw, Membership membership);
  void report(Membership membership, Report report);
  void on_over(std::uint64_t placement);
  void on_placed(Membership membership, std::uint64_t placement, const Outcome& outcome);

  bool pause(Nanos span);  // returns false once stop() was called
  bool stopping() const;

  const Options options_;
  asio::io_context& io_;
  Node& node_;
  Membership applied_ = 0;  // membership of the placements that the node knows; control thread

  // Members of the listener thread.
  FaultTimeouts timeouts_;
  std::uint32_t highest_epoch_ = 0;
  std::string complaint_;  // the last complaint; each is logged once
  const std::string instance_;
  Nanos searching_since_ = 0;      // 0 while this node is a member
  bool stepped_aside_ = false;     // for another node that may join itself
  std::set<std::string> refused_;  // addresses that refused this node although they have no other
                                   // member
  // Addresses without an answer, and since when; empty where coordinators are not elected.
  std::map<std::string, Nanos> silent_;

  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  bool stopping_ = false;
  Membership membership_ = 0;
  Membership last_membership_ = 0;
  std::uint64_t node_number_ = 0;  // this node's number at the coordinator
  std::uint64_t term_ = 0;         // the coordinator's; 0: it has not been elected
  std::uint64_t least_term_ = 0;   // the highest term that this node knows
  // The placements of elected coordinators that this node has; true: it serves them already.
  std::map<std::uint64_t, bool> placements_;
  std::string coordinator_;  // the coordinator's address
  bool electing_ = false;
  std::vector<Report> reports_;
  std::vector<Rail> rails_;
  bool rails_are_news_ = false;  // the coordinator does not have rails_ yet
  std::list<UniqueFd> open_;

  std::thread listener_;
  std::thread reporter_;
};

}  // namespace tally::control
