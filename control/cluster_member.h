// This node as a member of several: it joins a coordinator, hears what it is to serve, and says
// what became of it. When the coordinator is gone it joins again, or another; what runs here runs
// on.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "client/rpc_channel.h"
#include "control/config.h"
#include "control/coordinator_search.h"
#include "control/node.h"

namespace tally::control {

// Where clients connect, as they find it: a node that listens everywhere says its address on the
// network by which it reached the coordinator, or its host's name.
std::string reachable_tcp(std::string_view listening, std::string_view local_host,
                          std::string_view host_name);

class ClusterMember {
 public:
  struct Options {
    ClusterConfig cluster;
    std::string tcp;           // where the node listens; empty: not there
    std::string local;         // unix:/path
    std::uint32_t shards = 1;  // that serve a job
    std::vector<Rail> rails{};
  };
  // `io`: the control thread's loop; `node` is spoken to there. Both are borrowed, the node until
  // stop(), this until the node is gone.
  ClusterMember(Options options, asio::io_context& io, Node& node);
  ~ClusterMember();
  ClusterMember(const ClusterMember&) = delete;
  ClusterMember& operator=(const ClusterMember&) = delete;

  // The coordinator hears which are up. Any thread.
  void set_rails(std::vector<Rail> rails);
  // On the control thread. The coordinator hears of it by the connection's end.
  void stop();
  // Any thread.
  Standing standing() const;

 private:
  // Of a coordinator, from its answer to join until its connection is lost. 0 is none.
  using Membership = std::uint64_t;
  struct Report {
    std::uint64_t placement = 0;
    bool over = false;
    std::string error;
  };
  // A connection that stop() ends under whoever waits on it.
  class Interruptible;

  void listen_for_news();
  std::optional<std::string> find_coordinator();
  std::vector<CoordinatorAnswer> ask_all();
  void set_electing(bool electing);
  bool be_member_at(const std::string& address);
  nlohmann::json introduction(const client::RpcChannel& channel);
  void take(const nlohmann::json& news, Membership membership);
  void complain(const std::string& address, const Error& error);

  void send_reports();
  Outcome send(client::RpcChannel& channel, std::uint64_t node, const std::vector<Report>& batch,
               const std::vector<Rail>* rails);
  std::vector<Rail> reachable(std::vector<Rail> rails) const;

  // On the control thread.
  void apply(const std::vector<Placement>& placements, const std::vector<std::uint64_t>& withdraw,
             Membership membership);
  void report(Membership membership, Report report);

  bool pause(Nanos span);  // false: it is over
  bool stopping() const;

  const Options options_;
  asio::io_context& io_;
  Node& node_;
  Membership applied_ = 0;  // of the placements that the node knows; control thread

  // Of the thread that hears news.
  std::uint32_t highest_epoch_ = 0;
  std::string complaint_;  // the last, said once
  const std::string instance_;
  Nanos searching_since_ = 0;      // 0: it is a member
  bool stepped_aside_ = false;     // for another that may join itself
  std::set<std::string> refused_;  // by these, though nobody else is a member there

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  Membership membership_ = 0;
  Membership last_membership_ = 0;
  std::uint64_t node_number_ = 0;  // at the coordinator
  std::string coordinator_;        // its address
  bool electing_ = false;
  std::vector<Report> reports_;
  std::vector<Rail> rails_;
  bool rails_are_news_ = false;  // to the coordinator
  std::list<UniqueFd> open_;

  std::thread listener_;
  std::thread reporter_;
};

}  // namespace tally::control
