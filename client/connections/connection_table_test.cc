#include "client/connections/connection_table.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <cerrno>

#include "tests/support/client/recording_connection.h"

namespace tally::client {
namespace {

class ConnectionTableTest : public ::testing::Test {
 protected:
  ConnectionTableTest() {
    table_.add(std::make_unique<RecordingConnection>(true));
    table_.add(std::make_unique<RecordingConnection>(false));
    first_ = static_cast<RecordingConnection*>(&table_[0]);
    second_ = static_cast<RecordingConnection*>(&table_[1]);
  }

  ConnectionTable table_;
  RecordingConnection* first_ = nullptr;
  RecordingConnection* second_ = nullptr;
};

TEST_F(ConnectionTableTest, NumbersTheShardsOfAllConnections) {
  EXPECT_EQ(table_.shards(), 4U);
  EXPECT_EQ(table_.index_of(1), 0U);
  EXPECT_EQ(table_.index_of(2), 1U);
  EXPECT_TRUE(table_.send(3, {}, {}));
  ASSERT_EQ(second_->sent.size(), 1U);
  EXPECT_EQ(second_->sent[0].first, 1U);
  table_.receive(2, {});
  EXPECT_EQ(second_->received, 0U);
  EXPECT_EQ(first_->received, UINT32_MAX);
}

TEST_F(ConnectionTableTest, IndicesMayBeGiven) {
  ConnectionTable table;
  table.add(std::make_unique<RecordingConnection>(false), {0, 2});
  table.add(std::make_unique<RecordingConnection>(false), {3, 1});
  EXPECT_EQ(table.shards(), 4U);
  EXPECT_EQ(table.index_of(2), 0U);
  EXPECT_EQ(table.index_of(1), 1U);
  table.receive(1, {});
  EXPECT_EQ(static_cast<RecordingConnection&>(table[1]).received, 1U);
}

// Each read of a connection's events is a system call.
TEST_F(ConnectionTableTest, ReadsNoEventsOfConnectionsThatHaveNone) {
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(table_.read_events());
  EXPECT_EQ(first_->event_reads + second_->event_reads, 0);
  table_.mark(1);
  EXPECT_FALSE(table_.read_events());
  EXPECT_FALSE(table_.read_events());
  EXPECT_EQ(second_->event_reads, 1);
  first_->failed = first_->gone = true;
  EXPECT_TRUE(table_.read_events()) << "it has found that out while it received";
  EXPECT_EQ(first_->event_reads, 1);
  EXPECT_EQ(second_->event_reads, 1);
  EXPECT_TRUE(table_.is_gone(0));
  EXPECT_FALSE(table_.is_gone(1));
}

TEST_F(ConnectionTableTest, OneAlarmIsEnoughAndAllAreArmed) {
  first_->armed = false;
  EXPECT_FALSE(table_.arm(5 * kSecond));
  EXPECT_EQ(first_->alarm, 5 * kSecond);
  EXPECT_EQ(second_->alarm, kForever);
  first_->armed = true;
  EXPECT_TRUE(table_.arm(kForever));
}

TEST_F(ConnectionTableTest, IsFencedOnceAllConnectionsAre) {
  EXPECT_TRUE(table_.fence(0));
  first_->fenced = false;
  EXPECT_FALSE(table_.fence(0));
}

TEST_F(ConnectionTableTest, EventsNameTheirConnection) {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  ASSERT_TRUE(table_.watch_in(epoll.get(), 40));
  epoll_event event{};
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0);
  ::eventfd_write(second_->event.get(), 1);
  ASSERT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 1);
  EXPECT_EQ(event.data.u32, 41U);
  EXPECT_FALSE(table_.watch_in(-1, 0));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace tally::client
