#include "control/daemon/idle_limit.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

constexpr Nanos kStart = 1000 * kSecond;
constexpr Nanos kLimit = 2 * kSecond;

TEST(IdleLimit, IsOverWhenTheNodeHadNoUseForThatLong) {
  IdleLimit limit(kLimit, kStart);
  EXPECT_FALSE(limit.is_over(kStart + kLimit - 1, false, 0));
  EXPECT_TRUE(limit.is_over(kStart + kLimit, false, 0));
}

TEST(IdleLimit, CountsFromTheLastLookWithASession) {
  IdleLimit limit(kLimit, kStart);
  EXPECT_FALSE(limit.is_over(kStart + 5 * kSecond, true, 1));
  EXPECT_FALSE(limit.is_over(kStart + 6 * kSecond, false, 1));
  EXPECT_TRUE(limit.is_over(kStart + 7 * kSecond, false, 1));
}

TEST(IdleLimit, ANewConnectionCountsAsASessionDoes) {
  IdleLimit limit(kLimit, kStart);
  for (std::uint64_t connection = 1; connection <= 5; ++connection) {
    const Nanos now = kStart + static_cast<Nanos>(connection) * (kLimit - 1);
    EXPECT_FALSE(limit.is_over(now, false, connection)) << connection;
  }
  const Nanos last = kStart + 5 * (kLimit - 1);
  EXPECT_FALSE(limit.is_over(last + kLimit - 1, false, 5));
  EXPECT_TRUE(limit.is_over(last + kLimit, false, 5));
}

}  // namespace
}  // namespace tally::control
