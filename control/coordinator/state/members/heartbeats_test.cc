#include "control/coordinator/state/members/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/usual_timeouts.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Nanos kAnswered = 100 * kSecond;

TEST(HeartbeatsTest, ANodeThatDoesNotAskAgainIsSilent) {
  Heartbeats beats;
  EXPECT_EQ(beats.next_deadline(), kForever);
  beats.expect(1, kAnswered + kHeartbeatTimeout);
  beats.expect(2, kAnswered + kHeartbeatTimeout);
  beats.asked(2);
  Nanos now = beats.next_deadline();
  EXPECT_EQ(now, kAnswered + kHeartbeatTimeout);
  EXPECT_THAT(beats.take_silent(now - 1), IsEmpty());
  EXPECT_THAT(beats.take_silent(now), IsEmpty()) << "its request may wait to be read";
  now = beats.next_deadline();
  EXPECT_EQ(now, kAnswered + kHeartbeatTimeout + kSecondLook);
  EXPECT_THAT(beats.take_silent(now), ElementsAre(1));
  EXPECT_THAT(beats.take_silent(now + kSecond), IsEmpty()) << "it is returned once";
  EXPECT_EQ(beats.next_deadline(), kForever);
}

TEST(HeartbeatsTest, ACoordinatorThatStoodStillReadsTheRequestsOfThatTimeFirst) {
  Heartbeats beats;
  beats.expect(1, kAnswered + kHeartbeatTimeout);
  beats.expect(2, kAnswered + kHeartbeatTimeout);
  const Nanos now = kAnswered + 60 * kSecond;
  EXPECT_THAT(beats.take_silent(now), IsEmpty());
  beats.asked(1);
  EXPECT_THAT(beats.take_silent(now + kSecondLook - 1), IsEmpty());
  EXPECT_THAT(beats.take_silent(now + kSecondLook), ElementsAre(2));
}

TEST(HeartbeatsTest, ABusyCoordinatorLooksAgain) {
  Heartbeats beats;
  beats.expect(1, kAnswered);
  Nanos now = kAnswered;
  EXPECT_THAT(beats.take_silent(now), IsEmpty());
  for (int look = 0; look < 3; ++look) {
    now += kSecondLook + kOnTime;
    EXPECT_THAT(beats.take_silent(now), IsEmpty()) << "the node's request may not have been read";
  }
  EXPECT_THAT(beats.take_silent(now + kSecondLook + kOnTime - 1), ElementsAre(1));
}

TEST(HeartbeatsTest, ANodeThatHasLeftIsNotSilent) {
  Heartbeats beats;
  beats.expect(1, kAnswered + kHeartbeatTimeout);
  beats.erase(1);
  EXPECT_THAT(beats.take_silent(kAnswered + kSecond), IsEmpty());
  EXPECT_EQ(beats.next_deadline(), kForever);
}

TEST(HeartbeatsTest, TheTimeoutIsBelowTwoSecondsTogetherWithTheHoldOfARequest) {
  EXPECT_LE(kUsual.heartbeat_hold() + kHeartbeatTimeout + kSecondLook, 2 * kSecond);
}

}  // namespace
}  // namespace tally::control
