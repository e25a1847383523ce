// What waits for the shard, and the limit on a peer's notices.
#include "dataplane/transport/onesided/inbox.h"

#include <gtest/gtest.h>

#include <array>

namespace tally::transport::onesided {
namespace {

class InboxTest : public ::testing::Test {
 protected:
  static constexpr Peer kOne = 1;
  static constexpr Peer kTwo = 2;

  Inbox inbox_;
};

TEST_F(InboxTest, GivesAnswersInOrderAndInParts) {
  for (std::uint64_t user = 0; user < 3; ++user) {
    inbox_.add(Pulled{user, Status::kOk, {}, 0});
    inbox_.add(Pushed{10 + user, Status::kOk});
  }
  std::array<Pulled, 2> pulled;
  std::array<Pushed, 8> pushed;
  EXPECT_EQ(inbox_.take(pulled), 2U);
  EXPECT_EQ(pulled[1].user, 1U);
  EXPECT_EQ(inbox_.take(pushed), 3U);
  EXPECT_EQ(pushed[2].user, 12U);
  EXPECT_FALSE(inbox_.empty());
  EXPECT_EQ(inbox_.take(pulled), 1U);
  EXPECT_EQ(pulled[0].user, 2U);
  EXPECT_TRUE(inbox_.empty());
}

TEST_F(InboxTest, LimitsNoticesOfEachPeer) {
  for (std::size_t i = 0; i < Inbox::kMostNotices; ++i) ASSERT_TRUE(inbox_.add(Received{kOne, {}}));
  EXPECT_FALSE(inbox_.add(Received{kOne, {}}));
  EXPECT_TRUE(inbox_.add(Received{kTwo, {}}));
}

TEST_F(InboxTest, TakenNoticesDoNotCount) {
  std::array<Received, 1024> out;
  for (std::size_t round = 0; round < 2 * Inbox::kMostNotices / out.size(); ++round) {
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(inbox_.add(Received{kOne, {}}));
    EXPECT_EQ(inbox_.take(out), out.size());
  }
}

TEST_F(InboxTest, ForgetsOnlyNoticesOfThePeer) {
  while (inbox_.add(Received{kOne, {}})) continue;
  inbox_.add(Received{kTwo, {}});
  inbox_.add(Pushed{7, Status::kPeerLost});
  inbox_.forget(kOne);
  std::array<Received, 8> notices;
  EXPECT_EQ(inbox_.take(notices), 1U);
  EXPECT_EQ(notices[0].peer, kTwo);
  std::array<Pushed, 8> pushed;
  EXPECT_EQ(inbox_.take(pushed), 1U) << "the shard waits for this answer";
  EXPECT_TRUE(inbox_.add(Received{kOne, {}})) << "the next session of this number starts at 0";
}

}  // namespace
}  // namespace tally::transport::onesided
