// The order in which a shard does what there is to do, as its transport sees it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/support/shard_tree.h"
#include "tests/support/single_shard.h"

namespace tally::engine {
namespace {

using testing::ShardTree;
using testing::SingleShard;
using transport::Loopback;
using transport::Peer;

using Calls = std::vector<std::string_view>;

// Passes everything on, and notes what moves bytes.
class Recorder final : public transport::Transport {
 public:
  Recorder(Loopback& below, Calls& calls) : below_(below), calls_(calls) {}

  std::size_t receive(std::span<transport::Received> out) override { return below_.receive(out); }
  std::size_t pulled(std::span<transport::Pulled> out) override { return below_.pulled(out); }
  std::size_t pushed(std::span<transport::Pushed> out) override { return below_.pushed(out); }
  std::size_t lost(std::span<Peer> out) override { return below_.lost(out); }
  bool covers(const transport::Range& range) const override { return below_.covers(range); }
  void pull(std::span<const transport::Pull> pulls) override {
    if (!pulls.empty()) calls_.push_back("pull");
    below_.pull(pulls);
  }
  void release(std::uint32_t handle) override { below_.release(handle); }
  Peer begin_access(std::span<const Peer> peers) override { return below_.begin_access(peers); }
  Peer end_access(std::span<const Peer> peers) override { return below_.end_access(peers); }
  void locate(std::span<transport::Landing> landings) override { below_.locate(landings); }
  void push(std::span<const transport::Push> pushes) override {
    if (!pushes.empty()) calls_.push_back("push");
    below_.push(pushes);
  }
  void complete(std::span<const transport::Message> messages) override {
    below_.complete(messages);
  }
  void disconnect(Peer peer, std::string_view why) override { below_.disconnect(peer, why); }
  bool arm() override { return below_.arm(); }
  void disarm() override { below_.disarm(); }
  int fd() const override { return below_.fd(); }

 private:
  Loopback& below_;
  Calls& calls_;
};

// Results on their way down hold buffers of the vertices above, which are given back when they are
// placed: they go before the inputs of further tiles.
TEST(ShardOrder, WhatIsHandedDownGoesBeforeWhatIsPulled) {
  std::vector<Calls> calls(2);  // by vertex
  std::size_t made = 0;
  ShardTree::Options options;
  options.tree = {{0, {1}}, {0, {0}}};
  options.loopback = {transport::LoopbackConfig::Mode::kStaged, 0, 0};
  options.up_buffers = options.down_buffers = 1;  // one tile at a time
  options.decorate = [&](Loopback& below) {
    return std::make_unique<Recorder>(below, calls[made++]);
  };
  ShardTree tree(options);
  wire::Notice n = SingleShard::notice(wire::Kind::kAllReduce, 3 * 4096, 1);
  n.epoch = ShardTree::kEpoch;
  n.in_region = ShardTree::kIn;
  n.out_region = ShardTree::kOut;
  for (std::uint16_t rank = 0; rank < 2; ++rank) {
    std::memset(tree.worker(rank).in.data(), 0, 3 * 4096 * 4);
    tree.send(rank, n);
  }
  // Until the child node has pulled its rank's part of the first tile, and summed it.
  const auto pulls = [&] { return std::count(calls[1].begin(), calls[1].end(), "pull"); };
  for (int i = 0; i < 100 && pulls() == 0; ++i) tree.turn();
  ASSERT_EQ(pulls(), 1);
  tree.shard(1).turn(tree.now());
  // The root goes on alone: it sums, has the result for its child node, and wants the next tile.
  for (int i = 0; i < 20; ++i) tree.shard(0).turn(tree.now());
  calls[1].clear();
  tree.shard(1).turn(tree.now());
  EXPECT_EQ(calls[1], (Calls{"push", "pull"}));
  tree.settle();
  for (std::uint16_t rank = 0; rank < 2; ++rank) EXPECT_EQ(tree.take(rank).size(), 1U);
  EXPECT_TRUE(tree.clean());
}

}  // namespace
}  // namespace tally::engine
