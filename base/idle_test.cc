#include "base/idle.h"

#include <gtest/gtest.h>

#include <utility>

namespace tally {
namespace {

using Step = IdlePolicy::Step;

TEST(Idle, PollsThenYieldsThenSleeps) {
  IdlePolicy idle;
  for (int i = 0; i < IdlePolicy::kPolls; ++i) EXPECT_EQ(idle.next(1000), Step::kPoll);
  EXPECT_EQ(idle.next(1000), Step::kYield);
  EXPECT_EQ(idle.next(1000 + IdlePolicy::kMinYield - 1), Step::kYield);
  EXPECT_EQ(idle.next(1000 + IdlePolicy::kMinYield), Step::kSleep);
}

Nanos learned(Nanos gap) {
  IdlePolicy idle;
  Nanos now = 0;
  for (int i = 0; i < 100; ++i) {
    idle.next(now);
    idle.worked(now += gap);
  }
  return idle.yield_for();
}

TEST(Idle, YieldsAsLongAsTheUsualGapIfThatCanBeBridged) {
  EXPECT_NEAR(static_cast<double>(learned(200 * kMicrosecond)), 400e3, 10e3);
  EXPECT_EQ(learned(kMicrosecond), IdlePolicy::kMinYield);
  EXPECT_EQ(learned(10 * kMillisecond), IdlePolicy::kMinYield) << "sleeping is right";
}

// Waits for a second, woken after every sleep; returns {yields, sleeps}.
std::pair<int, int> rests(Nanos away) {
  IdlePolicy idle;
  Nanos now = 1;
  std::pair<int, int> count{0, 0};
  while (now < kSecond) {
    idle.rest(
        now,
        [&] {
          ++count.second;
          now += 100 * kMicrosecond;
          idle.worked(now);
        },
        [&] {
          ++count.first;
          now += away;
          return 0;
        },
        [&] { return now; });
    now += kMicrosecond;
  }
  return count;
}

TEST(Idle, SleepsWhereYieldsGoToThoseWhoCompute) {
  const auto [quick_yields, quick_sleeps] = rests(2 * kMicrosecond);
  EXPECT_GT(quick_yields, quick_sleeps);
  const auto [slow_yields, slow_sleeps] = rests(4 * kMillisecond);
  EXPECT_LE(slow_yields, 5) << "one in 65 slices";
  EXPECT_GT(slow_sleeps, 9000);
}

// Offers the core every 100 us for a second; returns how often it was taken.
int offers(Nanos away) {
  YieldPolicy yield_policy;
  Nanos now = 1;
  int yields = 0;
  while (now < kSecond) {
    yield_policy.offer([&] { return now; },
                       [&] {
                         ++yields;
                         now += away;
                         return 0;
                       });
    now += 100 * kMicrosecond;
  }
  return yields;
}

TEST(YieldPolicy, OffersTheCoreToThoseWhoGiveItBack) {
  EXPECT_NEAR(offers(2 * kMicrosecond), 1e9 / 102e3, 2);
  EXPECT_NEAR(offers(4 * kMillisecond), 1000 / (33 * 4), 1) << "not to those who compute";
}

}  // namespace
}  // namespace tally
