#include "dataplane/transport/roce/pair/answer_clock.h"

#include <gtest/gtest.h>

namespace tally::transport::roce {
namespace {

using Due = AnswerClock::Due;

constexpr Nanos kMs = kMillisecond;
constexpr Nanos kTimeout = 64 * kMs;
constexpr Nanos kFirst = kTimeout / 8;  // probe, at the earliest

class RoceAnswerClock : public ::testing::Test {
 public:
  RoceAnswerClock() { clock.start(now); }
  // A packet is answered after a round trip.
  void answer_after(Nanos round_trip) {
    psn = psn + 1;
    clock.sent(psn, now);
    now += round_trip;
    clock.answered(psn, now);
  }

  AnswerClock clock{kTimeout};
  Nanos now = 1000;
  Psn psn{};
};

TEST_F(RoceAnswerClock, ProbesAfterSomeRoundTripsAndThenAfterTwiceTheTime) {
  answer_after(4 * kMs);
  const Nanos wait = 4 * kMs + 8 * kMs;
  for (const Nanos each : {wait, 2 * wait, 4 * wait}) {
    EXPECT_EQ(clock.timer(), now + each);
    EXPECT_EQ(clock.due(now + each - 1), Due::kNothing);
    EXPECT_EQ(clock.due(now + each), Due::kProbe);
    EXPECT_EQ(clock.due(now + each), Due::kNothing) << "once";
  }
  clock.answered(psn, now += kMs);
  EXPECT_EQ(clock.timer(), now + kTimeout) << "the timeout is earlier";
  answer_after(4 * kMs);
  EXPECT_EQ(clock.timer(), now + 4 * kMs + 6 * kMs);
}

TEST_F(RoceAnswerClock, TimeoutsBecomeLonger) {
  for (const int times : {1, 2, 4, 8, 8}) {
    int probes = 0;
    while (clock.timer() < now + times * kTimeout) {
      ASSERT_EQ(clock.due(clock.timer()), Due::kProbe);
      ++probes;
    }
    EXPECT_GE(probes, times < 8 ? 1 : 0);
    now += times * kTimeout;
    EXPECT_EQ(clock.due(now - 1), Due::kNothing);
    EXPECT_EQ(clock.due(now), Due::kTimeout);
  }
  EXPECT_EQ(clock.timeouts(), 5U);
  clock.answered(psn + 1, now);
  EXPECT_EQ(clock.timeouts(), 0U);
}

TEST_F(RoceAnswerClock, HasFewProbesInALongTimeout) {
  constexpr Nanos kLongest = 17 * kSecond;
  clock = AnswerClock(kLongest);
  clock.start(now);
  for (int i = 0; i < 200; ++i) answer_after(10'000);
  int probes = 0;
  for (const Nanos end = now + kLongest; now < end - kMs; now += kMs) {
    probes += clock.due(now) == Due::kProbe ? 1 : 0;
  }
  EXPECT_EQ(probes, 3);
}

TEST_F(RoceAnswerClock, FollowsTheRoundTrips) {
  for (int i = 0; i < 200; ++i) answer_after(10 * kMs);
  EXPECT_NEAR(static_cast<double>(clock.timer() - now), 10.0 * kMs, 0.1 * kMs);
  for (int i = 0; i < 200; ++i) answer_after(10'000);
  EXPECT_EQ(clock.timer() - now, kFirst) << "the least";
}

TEST_F(RoceAnswerClock, DoesNotMeasureWhatIsSentAgain) {
  clock.sent(Psn(5), now);
  clock.sent(Psn(6), now + 7 * kMs);
  clock.answered(Psn(4), now += 7 * kMs);
  EXPECT_EQ(clock.timer(), now + kFirst) << "of a packet before it";
  clock.sent_again();
  clock.answered(Psn(5), now += 20 * kMs);
  EXPECT_EQ(clock.timer(), now + kFirst);
}

}  // namespace
}  // namespace tally::transport::roce
