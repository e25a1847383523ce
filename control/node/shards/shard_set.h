// The control thread's access to the shards: it builds them, sends them tasks, and receives their
// answers.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include "control/node/shards/transports.h"
#include "control/threads/completion.h"
#include "dataplane/engine/shard.h"

namespace tally::control {

// Called on the thread that makes a shard or its transports, before it makes them, so that the
// caller can choose their memory.
using BeforeShard = std::function<void(std::uint32_t shard)>;

class ShardSet {
 public:
  // io is the control thread's loop, which runs all callbacks; borrowed. memory: for the shards'
  // tiles, in equal shares (share_of); borrowed. Tiles that do not fit use the heap. networks: one
  // element for each shard, or none.
  ShardSet(
      asio::io_context& io, std::uint32_t shards, const engine::ShardConfig& config,
      std::span<std::byte> memory = {}, std::vector<NetworkTransports> networks = {},
      const BeforeShard& before = [](std::uint32_t) {});

  static std::span<std::byte> share_of(std::span<std::byte> memory, std::uint32_t shard,
                                       std::uint32_t shards);

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }

  // The body of a shard's thread; returns after stop().
  void run(std::uint32_t shard, bool busy) { members_[shard]->shard.run(stop_, busy); }
  void stop();

  // The callback gets a peer that at least one shard has lost. It may get the same peer more than
  // once.
  void on_lost(std::function<void(transport::Peer)> callback);

  // The same for the connection to a parent node.
  void on_parent_lost(std::function<void(protocol::ParentId)> callback);

  using Task = std::function<void(std::uint32_t index, engine::Shard&, Transports&)>;
  // Runs `task` on every shard's thread, then `then` on the control thread. The argument of `then`
  // says whether some shard ran out of memory; the caller must then undo the task's partial effects
  // by a second task. Tasks run in the order of the calls. When on_each() itself throws, no shard
  // runs the task.
  void on_each(Task task, WorkDone then);
  // For tasks that need no memory.
  void on_each(Task task, std::function<void()> then);

  // The shard's verbs transport, for its functions that any thread may call; null when the node
  // does not offer verbs.
  const transport::verbs::VerbsTransport* verbs(std::uint32_t shard) const {
    return members_[shard]->transports.verbs.get();
  }

  // Whether the node has a port of its own for transport roce.
  bool has_roce() const { return members_.front()->transports.roce != nullptr; }

  // Precondition: the shard does not run any more.
  Transports& transports_of_ended(std::uint32_t shard) { return members_[shard]->transports; }

  const engine::ShardCounters& counters(std::uint32_t shard) const {
    return members_[shard]->shard.counters();
  }

 private:
  struct MemberShard {
    MemberShard(std::uint32_t index, engine::ShardConfig config, std::span<std::byte> memory,
                NetworkTransports network);
    std::pmr::monotonic_buffer_resource arena;
    std::pmr::unsynchronized_pool_resource pool;  // over the arena; reuses released memory
    Transports transports;
    engine::Shard shard;
  };

  asio::io_context& io_;
  protocol::SmallOperations small_;  // shared by all shards
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<MemberShard>> members_;
};

}  // namespace tally::control
