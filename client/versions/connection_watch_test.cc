#include "client/versions/connection_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "tests/support/client/recorded_version.h"

namespace tally::client {
namespace {

using nlohmann::json;

class ConnectionWatchTest : public ::testing::Test {
 protected:
  static std::string path(const char* name) {
    return "/tmp/tally-connection-watch-" + std::to_string(::getpid()) + "-" + name + ".sock";
  }
  static json answer(const std::string&, const json&) { return {{"result", json::object()}}; }
  static bool readable(int fd) {
    pollfd source{fd, POLLIN, 0};
    return ::poll(&source, 1, 0) == 1;
  }
  static void ring(const RecordingConnection& connection) {
    ::eventfd_write(connection.event.get(), 1);
  }
  void read_all_events() {
    for (PlanVersion* version : versions_.all()) version->nodes.connections().read_events();
  }

  ScriptedNode a_{path("a"), answer}, b_{path("b"), answer};
  RecordedVersion first_{a_}, second_{b_};
  PlanVersions versions_{std::move(first_.version)};
  UniqueFd coordinator_{::eventfd(0, EFD_CLOEXEC)};
};

TEST_F(ConnectionWatchTest, AConnectionAloneIsItsOwnDescriptor) {
  ConnectionWatch watch(versions_.now(), -1);
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  EXPECT_EQ(watch.fd(), first_.connection->event.get());
  watch.mark_events(versions_);
  read_all_events();
  EXPECT_EQ(first_.connection->event_reads, 1);
}

TEST_F(ConnectionWatchTest, TheAlarmIsAnEventOnce) {
  ConnectionWatch watch(versions_.now(), coordinator_.get());
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  watch.set_alarm(1);
  EXPECT_TRUE(readable(watch.fd()));
  watch.mark_events(versions_);
  EXPECT_FALSE(readable(watch.fd()));
}

TEST_F(ConnectionWatchTest, MarksTheConnectionsWithEvents) {
  ConnectionWatch watch(versions_.now(), coordinator_.get());
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  PlanSwitch plans;
  ASSERT_TRUE(watch.add(versions_.add_next(std::move(second_.version))).ok());
  watch.mark_events(versions_);
  read_all_events();
  EXPECT_EQ(first_.connection->event_reads, 0);
  EXPECT_EQ(second_.connection->event_reads, 1) << "nobody receives from the next version";
  versions_.go_over(plans);
  EXPECT_FALSE(readable(watch.fd()));
  ring(*first_.connection);
  EXPECT_TRUE(readable(watch.fd()));
  watch.mark_events(versions_);
  read_all_events();
  EXPECT_EQ(first_.connection->event_reads, 1) << "of the old version";
  EXPECT_EQ(second_.connection->event_reads, 1);
}

TEST_F(ConnectionWatchTest, TheCoordinatorEndsASleep) {
  ConnectionWatch watch(versions_.now(), coordinator_.get());
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  ::eventfd_write(coordinator_.get(), 1);
  const Nanos now = monotonic_now();
  EXPECT_TRUE(watch.sleep(versions_, now, kForever));
  watch.mark_events(versions_);
  read_all_events();
  EXPECT_EQ(first_.connection->event_reads, 0) << "it is no connection";
}

TEST_F(ConnectionWatchTest, AnotherCoordinatorEndsASleepToo) {
  ConnectionWatch watch(versions_.now(), coordinator_.get());
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  coordinator_.reset();
  EXPECT_TRUE(watch.watch_coordinator(-1).ok());
  const UniqueFd next(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(watch.watch_coordinator(next.get()).ok());
  EXPECT_FALSE(readable(watch.fd()));
  ::eventfd_write(next.get(), 1);
  EXPECT_TRUE(readable(watch.fd()));
}

TEST_F(ConnectionWatchTest, DoesNotSleepBesideACompletion) {
  ConnectionWatch watch(versions_.now(), -1);
  ASSERT_TRUE(watch.begin(versions_.now()).ok());
  EXPECT_TRUE(versions_.arm(5 * kSecond));
  EXPECT_EQ(first_.connection->alarm, 5 * kSecond);
  first_.connection->armed = false;
  EXPECT_FALSE(versions_.arm(kForever));
  EXPECT_FALSE(watch.sleep(versions_, 0, kForever));
}

}  // namespace
}  // namespace tally::client
