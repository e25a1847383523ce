// When a peer with open operations counts as lost. The tests play the time.
#include "dataplane/transport/onesided/stall_watch.h"

#include <gtest/gtest.h>

namespace tally::transport::onesided {
namespace {

TEST(StallWatchTest, LosesPeerAfterFourSecondsWithoutEnd) {
  StallWatch watch;
  watch.start();
  for (int second = 1; second <= 4; ++second) EXPECT_EQ(watch.stalled(0, kSecond), 0U) << second;
  EXPECT_EQ(watch.stalled(0, kSecond), 1U);
}

TEST(StallWatchTest, CountsOperationsThatTheNetworkDoesNotTake) {
  StallWatch watch;
  for (int second = 1; second <= 4; ++second) EXPECT_EQ(watch.stalled(3, kSecond), 0U) << second;
  EXPECT_EQ(watch.stalled(3, kSecond), 3U);
}

TEST(StallWatchTest, KeepsPeerWhoseOperationsEnd) {
  StallWatch watch;
  watch.start();
  for (int second = 1; second <= 20; ++second) {
    EXPECT_EQ(watch.stalled(5, kSecond), 0U) << second;
    watch.start();
    watch.end();
  }
}

TEST(StallWatchTest, KeepsPeerWhoseBytesGetThrough) {
  StallWatch watch;
  watch.start();
  for (int second = 1; second <= 20; ++second) {
    watch.move_on();
    EXPECT_EQ(watch.stalled(5, kSecond), 0U) << second;
  }
}

TEST(StallWatchTest, KeepsIdlePeer) {
  StallWatch watch;
  for (int second = 1; second <= 60; ++second) EXPECT_EQ(watch.stalled(0, kSecond), 0U) << second;
  watch.start();
  EXPECT_EQ(watch.stalled(0, kSecond), 0U) << "idle time counts for no operation";
}

TEST(StallWatchTest, DoesNotCountTimeInWhichShardSlept) {
  StallWatch watch;
  watch.start();
  EXPECT_EQ(watch.stalled(0, 3600 * kSecond), 0U);
  EXPECT_EQ(watch.stalled(0, 3600 * kSecond), 0U);
}

}  // namespace
}  // namespace tally::transport::onesided
