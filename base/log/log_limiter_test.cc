#include "base/log/log_limiter.h"

#include <gtest/gtest.h>

namespace tally::log {
namespace {

TEST(LogLimiter, WritesSoManyLinesOfAReasonInASpan) {
  Limiter limiter(2, kSecond);
  EXPECT_TRUE(limiter.allows("idle", 0));
  EXPECT_TRUE(limiter.allows("idle", kSecond / 2));
  EXPECT_FALSE(limiter.allows("idle", kSecond - 1));
  EXPECT_TRUE(limiter.allows("full", kSecond - 1)) << "another reason has lines of its own";
  EXPECT_TRUE(limiter.allows("idle", kSecond)) << "the next span";
}

TEST(LogLimiter, ReportsOnceHowManyLinesWereLeftOut) {
  Limiter limiter(1, kSecond);
  EXPECT_FALSE(limiter.has_left_out());
  for (int i = 0; i < 6; ++i) limiter.allows("idle", i);
  EXPECT_TRUE(limiter.has_left_out());
  EXPECT_TRUE(limiter.take_left_out(kSecond).empty()) << "the first was left out at 1 ns";
  const auto left_out = limiter.take_left_out(kSecond + 1);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].reason, "idle");
  EXPECT_EQ(left_out[0].lines, 5U);
  EXPECT_FALSE(limiter.has_left_out());
  EXPECT_TRUE(limiter.take_left_out(2 * kSecond).empty());
}

TEST(LogLimiter, ReportsLeftOutLinesWhileTheFloodGoesOn) {
  Limiter limiter(1, kSecond);
  std::uint64_t reported = 0;
  for (Nanos now = 0; now < 10 * kSecond; now += kSecond / 10) {
    limiter.allows("idle", now);
    for (const auto& one : limiter.take_left_out(now)) reported += one.lines;
  }
  EXPECT_GE(reported, 70U) << "of 90, in each span";
}

TEST(LogLimiter, CountsReasonsWithoutEndAsOne) {
  Limiter limiter(1, kSecond);
  int written = 0;
  for (int i = 0; i < 1000; ++i)
    written += limiter.allows("reason " + std::to_string(i), 0) ? 1 : 0;
  EXPECT_EQ(written, 65);
}

}  // namespace
}  // namespace tally::log
