// A running node, put together from its configuration: EAL, shards, control, listening socket.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/cluster_member.h"
#include "control/config.h"
#include "control/coordinator/memory_store.h"
#include "control/cpu_claims.h"
#include "control/lone_shard.h"
#include "control/node.h"
#include "control/rpc/server.h"
#include "control/shard_set.h"
#include "control/topology.h"
#include "dataplane/engine/eal.h"

namespace tally::control {

class Daemon {
 public:
  // Serves when it returns: clients can connect, shards run.
  static Result<std::unique_ptr<Daemon>> start(const Config& config);
  // Ends what runs, in good order.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until `fd` is readable, or nobody has had a session for the configured time (false).
  // This thread is the control thread.
  bool run_until_readable(int fd);

  // Sessions end, their operations fail, shards stop.
  void stop();

  const std::string& isa() const { return isa_; }
  // "tcp:127.0.0.1:7733"; empty where it does not listen there.
  const std::string& tcp_address() const { return tcp_address_; }
  bool on_hugepages() const { return eal_->on_hugepages(); }

 private:
  Daemon() = default;
  Outcome build(const Config& config);
  void choose_places(const Config& config);
  std::vector<int> claim_cpus(const Config& config);
  void move_lone_shard(const std::vector<int>& cpus, std::string_view why);
  Outcome launch(bool busy);
  void join_cluster(const Config& config);
  void watch_for_idleness();
  void watch_rails();

  std::string isa_;
  asio::io_context io_{1};
  asio::steady_timer idle_timer_{io_};
  asio::steady_timer rail_timer_{io_};
  std::vector<Rail> rails_;             // none: the address of listen_tcp
  std::unique_ptr<Topology> topology_;  // null: unknown
  std::vector<ShardPlace> places_;      // by shard; none: where the kernel puts them
  CpuClaims claims_;                    // of several shards, or of one that has a place
  std::unique_ptr<LoneShard> lone_;     // of one that has none
  std::string tcp_address_;
  std::chrono::seconds exit_when_idle_{0};
  std::chrono::steady_clock::time_point last_session_;
  rpc::ConnectionId last_connection_ = 0;
  bool idle_for_too_long_ = false;
  // In the order of who uses whom; ~Daemon ends them from the last to the first.
  std::unique_ptr<engine::Eal> eal_;
  engine::EalMemory memory_;
  std::unique_ptr<ShardSet> shards_;
  std::unique_ptr<Store> store_ = std::make_unique<MemoryStore>();
  std::unique_ptr<ClusterMember> member_;  // none: the node stands alone
  std::unique_ptr<Node> node_;
  std::unique_ptr<rpc::Server> server_;
  bool running_ = false;
};

}  // namespace tally::control
