#include "control/node/shards/shard_set.h"

#include <asio/post.hpp>

#include "base/log/log.h"

namespace tally::control {

ShardSet::MemberShard::MemberShard(std::uint32_t index, engine::ShardConfig config,
                                   std::span<std::byte> memory, NetworkTransports network)
    : arena(memory.data(), memory.size(), std::pmr::new_delete_resource()),
      pool(&arena),
      transports(engine::max_pulls(config), std::move(network)),
      shard((config.protocol.shard = index, config.memory = &pool, config), transports.mux) {}

ShardSet::ShardSet(asio::io_context& io, std::uint32_t shards, const engine::ShardConfig& config,
                   std::span<std::byte> memory, std::vector<NetworkTransports> networks,
                   const BeforeShard& before)
    : io_(io) {
  networks.resize(shards);
  engine::ShardConfig each = config;
  each.protocol.small = &small_;
  for (std::uint32_t i = 0; i < shards; ++i) {
    before(i);
    members_.push_back(std::make_unique<MemberShard>(i, each, share_of(memory, i, shards),
                                                     std::move(networks[i])));
  }
}

std::span<std::byte> ShardSet::share_of(std::span<std::byte> memory, std::uint32_t shard,
                                        std::uint32_t shards) {
  const std::size_t share = memory.size() / shards / kCacheLine * kCacheLine;
  return memory.subspan(shard * share, share);
}

void ShardSet::stop() {
  stop_.store(true, std::memory_order_relaxed);
  for (const auto& member : members_) member->shard.post([] {});  // wakes the shard
}

void ShardSet::on_lost(std::function<void(transport::Peer)> callback) {
  for (const auto& member : members_) {
    member->shard.on_lost([this, callback](transport::Peer peer) {
      asio::post(io_, [callback, peer] { callback(peer); });
    });
  }
}

void ShardSet::on_parent_lost(std::function<void(protocol::ParentId)> callback) {
  for (const auto& member : members_) {
    member->shard.on_parent_lost([this, callback](protocol::ParentId parent_id) {
      asio::post(io_, [callback, parent_id] { callback(parent_id); });
    });
  }
}

void ShardSet::on_each(Task task, std::function<void()> then) {
  on_each(std::move(task), WorkDone([then = std::move(then)](const Outcome& done) {
            if (!done) log::error("no-memory", {{"in", "a task of a shard"}});
            then();
          }));
}

void ShardSet::on_each(Task task, WorkDone then) {
  // The last shard to finish posts the completion. The shards share nothing but the count.
  struct Round {
    Round(Task t, std::shared_ptr<Completion> d, std::uint32_t shards)
        : task(std::move(t)), done(std::move(d)), left(shards) {}
    Task task;
    std::shared_ptr<Completion> done;
    std::atomic<std::uint32_t> left;
  };
  const auto round = std::make_shared<Round>(
      std::move(task), std::make_shared<Completion>(io_, std::move(then)), size());
  // All tasks exist before the first shard receives one, so that no memory can run out in between.
  std::vector<engine::Mailbox::OwnedTask> tasks;
  for (std::uint32_t i = 0; i < size(); ++i) {
    MemberShard& member = *members_[i];
    tasks.push_back(std::make_unique<engine::Mailbox::Task>([round, i, &member] {
      if (!within_memory([&] { round->task(i, member.shard, member.transports); })) {
        round->done->set_failed();
      }
      // Acquire-release: what every shard did happens before what `then` reads.
      if (round->left.fetch_sub(1, std::memory_order_acq_rel) == 1) round->done->post();
    }));
  }
  for (std::uint32_t i = 0; i < size(); ++i) members_[i]->shard.post(std::move(tasks[i]));
}

}  // namespace tally::control
