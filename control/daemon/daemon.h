// A running node, built from its configuration: EAL, shards, control, listening socket.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "control/cluster/cluster_member.h"
#include "control/config/config.h"
#include "control/coordinator/state/memory_store.h"
#include "control/coordinator/store/leadership.h"
#include "control/daemon/idle_limit.h"
#include "control/machine/cpu_claims.h"
#include "control/machine/lone_shard.h"
#include "control/machine/topology.h"
#include "control/node/node.h"
#include "control/node/shards/shard_set.h"
#include "dataplane/engine/eal.h"
#include "net/server/server.h"
#include "net/tls/credentials.h"

namespace tally::control {

class Daemon {
 public:
  // Starts the node. On return clients can connect and shards run.
  static Result<std::unique_ptr<Daemon>> start(const Config& config);
  // Stops the node in order.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until fd is readable (true), or until no session has existed for the configured time
  // (false). The calling thread is the control thread.
  bool run_until_readable(int fd);

  // Ends the sessions, fails their operations and stops the shards.
  void stop();

  const std::string& isa() const { return isa_; }
  // "tcp:127.0.0.1:7733"; empty when the node does not listen on TCP.
  const std::string& tcp_address() const { return tcp_address_; }
  bool on_hugepages() const { return eal_->on_hugepages(); }

 private:
  Daemon() = default;
  Outcome build(const Config& config);
  void choose_places(const Config& config);
  std::vector<int> claim_cpus(const Config& config);
  void move_lone_shard(const std::vector<int>& cpus, std::string_view why);
  Outcome launch(bool busy);
  Outcome join_cluster(const Config& config);
  Outcome take_part_in_election(const Config& config);
  template <typename Run>
  static void serve(const Run& run);
  void watch_for_idleness();
  void listen_at_rails();
  void watch_rails();

  std::string isa_;
  asio::io_context io_{1};
  asio::steady_timer idle_timer_{io_};
  asio::steady_timer rail_timer_{io_};
  std::vector<Rail> rails_;             // empty: the address of listen_tcp is used
  std::unique_ptr<Topology> topology_;  // null when unknown
  std::vector<CpuAssignment> places_;   // by shard; empty: the kernel chooses
  CpuClaims claims_;                    // claims of several shards, or of a single placed shard
  std::unique_ptr<LoneShard> lone_;     // of a single shard without a place
  std::string tcp_address_;
  Nanos exit_when_idle_ = 0;  // 0: never
  IdleLimit idle_limit_{0, 0};
  bool idle_for_too_long_ = false;
  // Each member uses those above it; ~Daemon destroys them from the last to the first.
  std::unique_ptr<engine::Eal> eal_;
  engine::EalMemory memory_;
  std::unique_ptr<ShardSet> shards_;
  std::unique_ptr<Store> store_ = std::make_unique<MemoryStore>();
  net::tls::Credentials credentials_;      // what this node shows to other nodes
  std::unique_ptr<ClusterMember> member_;  // null when the node is in no cluster
  std::unique_ptr<Node> node_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Leadership> leadership_;  // null: this node does not elect its coordinator
  bool running_ = false;
};

}  // namespace tally::control
