#include "base/system/cycle_clock.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tally {
namespace {

TEST(CycleClock, StandsStillWhereTimeIsAnArgument) {
  CycleClock clock;
  clock.reach(1000);
  EXPECT_EQ(clock.now(), 1000);
  EXPECT_EQ(clock.now(), 1000);
  clock.reach(5000);
  EXPECT_EQ(clock.now(), 5000);
}

TEST(CycleClock, NeverGoesBack) {
  CycleClock clock = CycleClock::calibrated();
  const Nanos ahead = monotonic_now() + kSecond;
  clock.reach(ahead);
  EXPECT_EQ(clock.now(), ahead);
  clock.reach(ahead - 1);
  EXPECT_EQ(clock.now(), ahead);
}

// Between two settings, and just after one. Whoever is preempted between two readings errs by that,
// so the best of many tries decides.
TEST(CycleClock, AgreesWithTheMonotonicClock) {
  CycleClock clock = CycleClock::calibrated();
  EXPECT_GT(clock.cycles_per_nano(), 0);
  for (const Nanos pause : {Nanos{0}, 300 * kMicrosecond, 5 * kMillisecond}) {
    Nanos error = kForever;
    for (int i = 0; i < 100 && error > 2 * kMicrosecond; ++i) {
      const timespec time{0, pause};
      ::nanosleep(&time, nullptr);
      const Nanos before = monotonic_now();
      const Nanos between = clock.now();
      const Nanos after = monotonic_now();
      error = std::min(error, std::abs(between - (before + after) / 2));
    }
    EXPECT_LE(error, 2 * kMicrosecond) << "after " << pause << " ns";
  }
}

}  // namespace
}  // namespace tally
