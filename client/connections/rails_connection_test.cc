#include "client/connections/rails_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/support/client/recording_connection.h"

namespace tally::client {
namespace {

using nlohmann::json;

class RailsConnectionTest : public ::testing::Test {
 protected:
  // Shards 0 and 2 by the first NIC, 1 and 3 by the second.
  void SetUp() override {
    std::vector<RailConnection> rails;
    rails.push_back({std::make_unique<RecordingConnection>(false), {0, 2}});
    rails.push_back({std::make_unique<RecordingConnection>(false), {3, 1}});
    first_ = static_cast<RecordingConnection*>(rails[0].connection.get());
    second_ = static_cast<RecordingConnection*>(rails[1].connection.get());
    second_->key = 9;
    connection_ = RailsConnection::make(std::move(rails)).value();
  }
  bool readable() const {
    pollfd source{connection_->fd(), POLLIN, 0};
    return ::poll(&source, 1, 0) == 1;
  }

  std::unique_ptr<RailsConnection> connection_;
  RecordingConnection* first_ = nullptr;
  RecordingConnection* second_ = nullptr;
};

TEST_F(RailsConnectionTest, EachShardUsesItsNic) {
  EXPECT_EQ(connection_->shards(), 4u);
  EXPECT_EQ(connection_->transport(), "fabric");
  EXPECT_EQ(connection_->eager_bytes(), 8192u);
  for (std::uint32_t shard = 0; shard < 4; ++shard) EXPECT_TRUE(connection_->send(shard, {}, {}));
  ASSERT_EQ(first_->sent.size(), 2u);
  ASSERT_EQ(second_->sent.size(), 2u);
  EXPECT_EQ(first_->sent[1].first, 1u) << "shard 2 is its second";
  EXPECT_EQ(second_->sent[0].first, 1u) << "and shard 1 the other's";
  connection_->receive(3, {});
  EXPECT_EQ(second_->received, 0u);
  EXPECT_EQ(first_->received, UINT32_MAX);
}

TEST_F(RailsConnectionTest, ARegionHasAKeyForEachShard) {
  const auto region = Region::allocate(4096).value();
  const auto offer = connection_->offer(*region);
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->params, (json{{"key", 7}, {"keys", {7, 9, 7, 9}}}));
  connection_->withdraw(*region);
  EXPECT_EQ(first_->offered, 0);
  EXPECT_EQ(second_->offered, 0);
}

TEST_F(RailsConnectionTest, ARegionThatOneNicRefusesIsWithdrawnFromAll) {
  const auto region = Region::allocate(4096).value();
  second_->refuses = true;
  EXPECT_EQ(connection_->offer(*region).status(), Status::kNoMemory);
  EXPECT_EQ(first_->offered, 0);
}

TEST_F(RailsConnectionTest, AnEventOfOneNicIsAnEventOfTheConnection) {
  EXPECT_TRUE(connection_->arm(kForever));
  EXPECT_FALSE(connection_->read_events());
  EXPECT_FALSE(readable());
  second_->armed = false;
  EXPECT_FALSE(connection_->arm(kForever));
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(second_->event.get(), &one, sizeof one), 8);
  EXPECT_TRUE(readable());
  second_->gone = true;
  EXPECT_TRUE(connection_->read_events());
  second_->fenced = false;
  EXPECT_FALSE(connection_->fence(kForever));
}

}  // namespace
}  // namespace tally::client
