#include "dataplane/engine/parent_connections.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tally::engine {
namespace {

constexpr protocol::BufferLayout kLayout{.bytes = 64, .up = 2, .down = 3, .classes = 1};

class FakeConnection final : public ParentConnection {
 public:
  explicit FakeConnection(int descriptor = -1) : descriptor_(descriptor) {}

  void send(std::uint32_t shard, const RingEntry& /*message*/) override { sent.push_back(shard); }
  std::size_t receive(std::uint32_t /*shard*/, std::span<RingEntry> out) override {
    return std::min(messages, out.size());
  }
  std::span<std::byte> buffers(std::uint32_t /*shard*/) const override { return buffers_; }
  std::uint32_t region(std::uint32_t /*shard*/) const override { return 1; }
  bool lost() const override { return is_lost; }
  void disconnect() override { is_lost = true; }
  bool arm() override { return messages == 0; }
  void disarm() override { ++disarms; }
  int fd() const override { return descriptor_; }

  std::size_t messages = 0;
  bool is_lost = false;
  int disarms = 0;
  std::vector<std::uint32_t> sent;  // shards

 private:
  int descriptor_;
  mutable std::vector<std::byte> buffers_ = std::vector<std::byte>(kLayout.total_bytes());
};

class ParentConnectionsTest : public ::testing::Test {
 protected:
  // Ids 0 and 2; no connection has id 1.
  ParentConnectionsTest() {
    parents_.add(0, first_, 4, kLayout);
    parents_.add(2, second_, 5, kLayout);
  }

  FakeConnection first_{10}, second_{20};
  ParentConnections parents_;
};

TEST_F(ParentConnectionsTest, ReceivesAndSendsByTheId) {
  second_.messages = 2;
  EXPECT_EQ(parents_.size(), 3U);
  EXPECT_TRUE(parents_.receive(0).empty());
  EXPECT_TRUE(parents_.receive(1).empty());
  EXPECT_EQ(parents_.receive(2).size(), 2U);
  parents_.send({2, {}});
  EXPECT_EQ(second_.sent, std::vector<std::uint32_t>{5});
  EXPECT_TRUE(first_.sent.empty());
}

TEST_F(ParentConnectionsTest, ReportsALostConnectionOnceAndReceivesNothingFromIt) {
  second_.messages = 2;
  EXPECT_FALSE(parents_.next_lost().has_value());
  parents_.disconnect(2);
  EXPECT_EQ(parents_.next_lost(), 2U);
  EXPECT_FALSE(parents_.next_lost().has_value());
  EXPECT_TRUE(parents_.receive(2).empty());
  EXPECT_FALSE(parents_.receive(0).data() == nullptr) << "the other connection is live";
}

TEST_F(ParentConnectionsTest, FindsTheBuffersOfTiles) {
  EXPECT_EQ(parents_.tiles_down(), 6U);
  protocol::Tile tile;
  tile.own = {2, 1};
  EXPECT_EQ(parents_.buffer_of(tile) - second_.buffers(5).data(), (2 + 1) * 64) << "after those up";
  tile.partial = true;
  EXPECT_EQ(parents_.buffer_of(tile) - second_.buffers(5).data(), 64);
  parents_.remove(2);
  EXPECT_EQ(parents_.tiles_down(), 3U);
  parents_.remove(7);  // was never added
}

TEST_F(ParentConnectionsTest, ArmsLiveConnectionsOnly) {
  std::vector<pollfd> polled;
  EXPECT_TRUE(parents_.arm(polled));
  ASSERT_EQ(polled.size(), 2U);
  EXPECT_EQ(polled[1].fd, 20);
  second_.messages = 1;
  EXPECT_FALSE(parents_.arm(polled)) << "a message waits";
  second_.is_lost = true;
  EXPECT_EQ(parents_.next_lost(), 2U);
  polled.clear();
  EXPECT_TRUE(parents_.arm(polled));
  EXPECT_EQ(polled.size(), 1U);
  parents_.disarm();
  EXPECT_EQ(first_.disarms, 1);
  EXPECT_EQ(second_.disarms, 1) << "it may have been armed before it was lost";
}

}  // namespace
}  // namespace tally::engine
