#include "control/shard_set.h"

#include <asio/post.hpp>

namespace tally::control {

ShardSet::MemberShard::MemberShard(std::uint32_t index, engine::ShardConfig config,
                                   std::span<std::byte> memory, NetworkPorts network)
    : arena(memory.data(), memory.size(), std::pmr::new_delete_resource()),
      pool(&arena),
      ports(engine::max_pulls(config), std::move(network)),
      shard((config.protocol.shard = index, config.memory = &pool, config), ports.mux) {}

ShardSet::ShardSet(asio::io_context& io, std::uint32_t shards, const engine::ShardConfig& config,
                   std::span<std::byte> memory, std::vector<NetworkPorts> networks,
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
  for (const auto& member : members_) member->shard.post([] {});  // wakes it
}

void ShardSet::on_lost(std::function<void(transport::Peer)> callback) {
  for (const auto& member : members_) {
    member->shard.on_lost([this, callback](transport::Peer peer) {
      asio::post(io_, [callback, peer] { callback(peer); });
    });
  }
}

void ShardSet::on_uplink_lost(std::function<void(protocol::Link)> callback) {
  for (const auto& member : members_) {
    member->shard.on_uplink_lost([this, callback](protocol::Link link) {
      asio::post(io_, [callback, link] { callback(link); });
    });
  }
}

void ShardSet::on_each(Task task, std::function<void()> then) {
  // The last shard to finish brings the news; the count is the only thing that they share.
  struct Round {
    Round(Task t, std::function<void()> f, std::uint32_t shards)
        : task(std::move(t)), then(std::move(f)), left(shards) {}
    Task task;
    std::function<void()> then;
    std::atomic<std::uint32_t> left;
  };
  auto round = std::make_shared<Round>(std::move(task), std::move(then), size());
  for (std::uint32_t i = 0; i < size(); ++i) {
    MemberShard& member = *members_[i];
    member.shard.post([this, round, i, &member] {
      round->task(i, member.shard, member.ports);
      // Acquire-release: what every shard did happens before what `then` sees.
      if (round->left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        asio::post(io_, [round] { round->then(); });
      }
    });
  }
}

}  // namespace tally::control
