// The attached peers: their regions, their accounts of operations, and how they are lost.
#include "dataplane/transport/onesided/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tally::transport::onesided {
namespace {

TEST(SessionTest, NamesOnlyRangesInsideOfRegions) {
  constexpr Peer kAnyPeer = 3;
  constexpr std::uint32_t kAnyRegion = 7;
  Session session;
  session.regions.set(kAnyRegion, {.base = 0x10000, .bytes = 100, .key = 5});
  const auto remote = session.remote({kAnyPeer, kAnyRegion, 40, 60});
  ASSERT_TRUE(remote.has_value());
  EXPECT_EQ(remote->address, 0x10028U);
  EXPECT_EQ(remote->key, 5U);
  EXPECT_FALSE(session.remote({kAnyPeer, kAnyRegion, 40, 61}));
  EXPECT_FALSE(session.remote({kAnyPeer, kAnyRegion, UINT64_MAX, 2}));
  EXPECT_FALSE(session.remote({kAnyPeer, kAnyRegion + 1, 0, 1}));
}

TEST(SessionTest, CountsEndOfEagerOperationThatNeverStarted) {
  Session session;
  Operation operation;
  operation.eager = true;
  session.eager = 1;
  session.ended(operation);
  EXPECT_EQ(session.eager, 0U);
  EXPECT_EQ(session.watch.stalled(0, 0), 0U) << "the network never had it";
}

class SessionsTest : public ::testing::Test {
 protected:
  static constexpr Peer kPeer = 3;

  SessionsTest() { sessions_.add(kPeer, std::make_unique<Session>()); }
  std::vector<Peer> lost(Nanos now = 0) {
    std::array<Peer, 8> out;
    return {out.begin(), out.begin() + static_cast<long>(sessions_.lost(out, now))};
  }

  Sessions sessions_;
};

TEST_F(SessionsTest, ReportsLostPeerOnceWithItsFirstReason) {
  Session& session = *sessions_.serving(kPeer);
  session.refuse("first");
  session.refuse("second");
  EXPECT_EQ(session.why, "first");
  EXPECT_EQ(sessions_.serving(kPeer), nullptr);
  EXPECT_EQ(sessions_.attached(kPeer), &session) << "until it is removed";
  EXPECT_TRUE(sessions_.has_lost());
  EXPECT_THAT(lost(), testing::ElementsAre(kPeer));
  EXPECT_FALSE(sessions_.has_lost());
  EXPECT_THAT(lost(), testing::IsEmpty());
}

TEST_F(SessionsTest, LosesPeerWhoseOperationDoesNotEnd) {
  Operation operation;
  sessions_.attached(kPeer)->started(operation);
  for (Nanos now = 0; now <= 4 * kSecond; now += kSecond)
    EXPECT_THAT(lost(now), testing::IsEmpty());
  EXPECT_THAT(lost(5 * kSecond), testing::ElementsAre(kPeer));
  EXPECT_THAT(sessions_.attached(kPeer)->why, testing::HasSubstr("1 operations"));
}

TEST_F(SessionsTest, HasNoSessionOfRemovedPeer) {
  EXPECT_EQ(sessions_.attached_count(), 1U);
  sessions_.remove(kPeer);
  EXPECT_EQ(sessions_.attached_count(), 0U);
  EXPECT_EQ(sessions_.attached(kPeer), nullptr);
  EXPECT_EQ(sessions_.attached(kPeer + 1), nullptr);
}

}  // namespace
}  // namespace tally::transport::onesided
