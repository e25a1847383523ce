// The control thread's hold on the shards: builds them, sends them tasks, hears from them.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include "control/ports.h"
#include "dataplane/engine/shard.h"

namespace tally::control {

// Called on the thread that makes a shard, or its ports, before it does: to choose their memory.
using BeforeShard = std::function<void(std::uint32_t shard)>;

class ShardSet {
 public:
  // `io`: the control thread's loop, where everything that comes back is called. Borrowed.
  // `memory`: for the shards' tiles, in equal shares (share_of); borrowed. What does not fit comes
  // from the heap. `networks`: for each shard, or none.
  ShardSet(
      asio::io_context& io, std::uint32_t shards, const engine::ShardConfig& config,
      std::span<std::byte> memory = {}, std::vector<NetworkPorts> networks = {},
      const BeforeShard& before = [](std::uint32_t) {});

  static std::span<std::byte> share_of(std::span<std::byte> memory, std::uint32_t shard,
                                       std::uint32_t shards);

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }

  // The body of a shard's thread; returns after stop().
  void run(std::uint32_t shard, bool busy) { members_[shard]->shard.run(stop_, busy); }
  void stop();

  // `peer` is lost to at least one shard. May come more than once.
  void on_lost(std::function<void(transport::Peer)> callback);

  // The same of a connection with a node above.
  void on_uplink_lost(std::function<void(protocol::Link)> callback);

  using Task = std::function<void(std::uint32_t index, engine::Shard&, Ports&)>;
  // Runs `task` on every shard's thread, then `then` on the control thread. Tasks keep their order.
  void on_each(Task task, std::function<void()> then);

  // For what it does on any thread; null where the node does not offer verbs.
  const transport::verbs::Port* verbs(std::uint32_t shard) const {
    return members_[shard]->ports.verbs.get();
  }

  const engine::ShardCounters& counters(std::uint32_t shard) const {
    return members_[shard]->shard.counters();
  }

 private:
  struct MemberShard {
    MemberShard(std::uint32_t index, engine::ShardConfig config, std::span<std::byte> memory,
                NetworkPorts network);
    std::pmr::monotonic_buffer_resource arena;
    std::pmr::unsynchronized_pool_resource pool;  // of the arena: what is outgrown is used again
    Ports ports;
    engine::Shard shard;
  };

  asio::io_context& io_;
  protocol::SmallOperations small_;  // of all shards
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<MemberShard>> members_;
};

}  // namespace tally::control
