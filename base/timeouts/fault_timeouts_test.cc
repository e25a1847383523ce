#include "base/timeouts/fault_timeouts.h"

#include <gtest/gtest.h>

#include <set>

namespace tally {
namespace {

TEST(FaultTimeoutsTest, SixtySecondsGiveTheUsualTimeouts) {
  constexpr FaultTimeouts usual;
  EXPECT_EQ(usual.fault, 60 * kSecond);
  EXPECT_EQ(usual.deadline(), 60 * kSecond);
  EXPECT_EQ(usual.repair(), 60 * kSecond);
  EXPECT_EQ(usual.coordinator_silence(), 65 * kSecond);
  EXPECT_EQ(usual.change(), 30 * kSecond);
  EXPECT_EQ(usual.preparing(), 20 * kSecond);
  EXPECT_EQ(usual.node_silence(), 30 * kSecond);
  EXPECT_EQ(usual.rank_resume(), 20 * kSecond);
  EXPECT_EQ(usual.placing(), 10 * kSecond);
  EXPECT_EQ(usual.parent_connection(), 8 * kSecond);
  EXPECT_EQ(usual.store(), 5 * kSecond);
  EXPECT_EQ(usual.node_return(), 10 * kSecond);
  EXPECT_EQ(usual.node_rejoin(), 2 * kSecond);
  EXPECT_EQ(usual.rank_reconnect(), 2 * kSecond);
  EXPECT_EQ(usual.heartbeat(), 750 * kMillisecond);
  EXPECT_EQ(usual.second_look(), 200 * kMillisecond);
  EXPECT_EQ(usual.heartbeat_hold(), kSecond);
  EXPECT_EQ(usual.news_answer(), 20 * kSecond);
}

// Each is shorter than what relies on it.
TEST(FaultTimeoutsTest, KeepTheirOrderForEveryNumber) {
  for (Nanos fault = FaultTimeouts::kLeast; fault <= FaultTimeouts::kMost; fault += kSecond) {
    const FaultTimeouts one{.fault = fault};
    SCOPED_TRACE(fault / kSecond);
    ASSERT_LT(one.second_look(), one.heartbeat_hold());
    ASSERT_LT(one.heartbeat() + one.second_look(), one.node_rejoin());
    ASSERT_LT(one.node_rejoin() + one.second_look(), one.node_return());
    ASSERT_LT(one.rank_reconnect(), one.rank_resume());
    ASSERT_LT(one.node_return(), one.rank_resume());
    ASSERT_LE(one.rank_resume(), one.change());
    ASSERT_LE(2 * one.store(), one.placing());
    ASSERT_LT(one.parent_connection(), one.placing());
    ASSERT_LT(one.placing(), one.change());
    ASSERT_LT(one.preparing(), one.change());
    ASSERT_LT(one.heartbeat_hold() + one.heartbeat(), one.news_answer());
    ASSERT_LT(one.news_answer(), one.node_silence());
    ASSERT_LT(one.node_silence(), one.repair());
    ASSERT_LT(one.change(), one.deadline());
    ASSERT_LE(one.repair(), fault);
    ASSERT_LT(one.repair(), one.coordinator_silence());
  }
}

TEST(FaultTimeoutsTest, GrowWithTheNumber) {
  auto before = FaultTimeouts{.fault = FaultTimeouts::kLeast}.shown();
  for (Nanos fault = FaultTimeouts::kLeast; fault <= FaultTimeouts::kMost; fault += kSecond) {
    const auto now = FaultTimeouts{.fault = fault}.shown();
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_GE(now[i].ms, before[i].ms) << now[i].name << " at " << fault / kSecond << " s";
    }
    before = now;
  }
}

TEST(FaultTimeoutsTest, ANodeIsKnownToBeSilentWithinTwoSeconds) {
  for (const Nanos fault : {FaultTimeouts::kLeast, FaultTimeouts{}.fault, FaultTimeouts::kMost}) {
    const FaultTimeouts one{.fault = fault};
    EXPECT_LE(one.heartbeat_hold() + one.heartbeat() + one.second_look(), 2 * kSecond);
    EXPECT_GE(one.heartbeat(), 500 * kMillisecond) << "a loaded machine needs that";
  }
}

TEST(FaultTimeoutsTest, ADeadlineOfTheUserStays) {
  const FaultTimeouts one{.fault = 20 * kSecond, .own_deadline = 90 * kSecond};
  EXPECT_EQ(one.deadline(), 90 * kSecond);
  EXPECT_EQ(one.repair(), 20 * kSecond);
}

TEST(FaultTimeoutsTest, ShowsEachOnce) {
  std::set<std::string_view> names;
  for (const auto& one : FaultTimeouts{}.shown()) EXPECT_TRUE(names.insert(one.name).second);
  EXPECT_EQ(FaultTimeouts{}.shown().front().ms, 60'000);
}

}  // namespace
}  // namespace tally
