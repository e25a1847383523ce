#include "base/cycle_clock.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tally {
namespace {

TEST(CycleClock, StandsStillWhereTimeIsAnArgument) {
  CycleClock clock;
  clock.set(1000);
  EXPECT_EQ(clock.now(), 1000);
  EXPECT_EQ(clock.now(), 1000);
  clock.set(5000);
  EXPECT_EQ(clock.now(), 5000);
}

TEST(CycleClock, NeverGoesBack) {
  CycleClock clock;
  clock.set(1000);
  EXPECT_EQ(clock.now(), 1000);
  clock.set(999);
  EXPECT_EQ(clock.now(), 1000);
}

// Sleeping and being preempted change neither clock; only the two readings' distance does, so the
// best of a few tries decides.
TEST(CycleClock, AgreesWithTheMonotonicClock) {
  CycleClock clock = CycleClock::calibrated();
  EXPECT_GT(clock.cycles_per_nano(), 0);
  const timespec pause{0, 20 * kMillisecond};
  clock.set(monotonic_now());
  ::nanosleep(&pause, nullptr);
  Nanos error = kForever;
  for (int i = 0; i < 100; ++i) {
    const Nanos before = monotonic_now();
    const Nanos between = clock.now();
    const Nanos after = monotonic_now();
    error = std::min(error, std::abs(between - (before + after) / 2));
  }
  EXPECT_LT(error, 100 * kMicrosecond) << "of 20 ms";
}

}  // namespace
}  // namespace tally
