// What the one-sided transports share, over a network that a test plays: it says what the network
// takes and when operations end.
#include "dataplane/transport/onesided/onesided_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace tally::transport::onesided {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Peer kOne = 1;
constexpr Peer kTwo = 2;
constexpr std::uint32_t kRegion = 7;
constexpr std::uint64_t kRegionBytes = 1 << 20;
constexpr std::size_t kPieceBytes = LandingMemory::kAlignment;

// Records the operations that it takes. `room` limits how many more it takes.
class ScriptedPort : public OneSidedTransport {
 public:
  ScriptedPort()
      : OneSidedTransport({.landing_bytes = 4 * kPieceBytes, .payload_bytes = kPieceBytes}) {}

  void attach(Peer peer) {
    sessions().add(peer, std::make_unique<Session>());
    add_region(peer, kRegion, {.base = 0x10000, .bytes = kRegionBytes, .key = 5});
  }
  void detach(Peer peer) override { remove(peer); }
  // The oldest operation that the network has ends.
  void end_oldest(Status status = Status::kOk) {
    ASSERT_FALSE(taken_.empty());
    Operation& oldest = operation(taken_.front());
    taken_.pop_front();
    end(oldest, status);
  }
  void come(Peer peer, const RingEntry& notice) {
    on_notice(*sessions().attached(peer), peer, notice);
  }
  std::vector<std::string> asked() { return std::exchange(asked_, {}); }

  std::size_t room = SIZE_MAX;
  bool takes_operations = true;
  std::size_t largest_eager = 0;

 protected:
  bool start(Session&, Operation& operation) override {
    if (room == 0 || !takes_operations) return false;
    --room;
    asked_.push_back(operation.kind == Kind::kPull ? "read" : "write");
    taken_.push_back(operation.index);
    return true;
  }
  bool send(Session&, const RingEntry&) override {
    if (room == 0) return false;
    --room;
    asked_.push_back("completion");
    return true;
  }
  bool take_eagerly(Session& session, const Push& push) override {
    return push.landing.target.bytes <= largest_eager && eager_write(session, push);
  }
  void progress() override {}
  bool may_sleep() override { return true; }

 private:
  std::vector<std::string> asked_;
  std::deque<std::uint32_t> taken_;  // operations that the network has
};

class OneSidedPortTest : public ::testing::Test {
 protected:
  OneSidedPortTest() {
    transport_.attach(kOne);
    transport_.attach(kTwo);
  }

  static Range range(std::uint64_t bytes, Peer peer = kOne) { return {peer, kRegion, 0, bytes}; }
  void pull(std::uint64_t user, std::uint64_t bytes = 100, Peer peer = kOne) {
    const Pull pull{range(bytes, peer), user};
    transport_.pull({&pull, 1});
  }
  void push(std::uint64_t user, std::uint64_t bytes = 100, Peer peer = kOne) {
    const Push push{.landing = {.target = range(bytes, peer), .operation_bytes = bytes},
                    .source = bytes_.data(),
                    .user = user};
    transport_.push({&push, 1});
  }
  void complete(Peer peer = kOne) {
    const Message message{peer, {}};
    transport_.complete({&message, 1});
  }
  // From now on the network takes everything; the transport tries again what the network refused.
  void take_all() {
    transport_.room = SIZE_MAX;
    std::array<Received, 1> none;
    transport_.receive(none);
  }
  std::vector<Pulled> pulled() {
    std::array<Pulled, 64> out;
    return {out.begin(), out.begin() + static_cast<long>(transport_.pulled(out))};
  }
  std::vector<Pushed> pushed() {
    std::array<Pushed, 64> out;
    return {out.begin(), out.begin() + static_cast<long>(transport_.pushed(out))};
  }
  std::vector<Peer> lost(Nanos now) {
    std::array<Peer, 8> out;
    return {out.begin(), out.begin() + static_cast<long>(transport_.lost(out, now))};
  }

  ScriptedPort transport_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kPieceBytes, std::byte{42});
};

TEST_F(OneSidedPortTest, AnswersPullWithViewOfLandedBytes) {
  pull(17);
  EXPECT_THAT(pulled(), IsEmpty());
  transport_.end_oldest();
  const auto ended = pulled();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].user, 17U);
  EXPECT_EQ(ended[0].status, Status::kOk);
  ASSERT_EQ(ended[0].view.size(), 1U);
  EXPECT_EQ(ended[0].view[0].bytes, 100U);
  EXPECT_FALSE(transport_.landing_memory().empty());
  transport_.release(ended[0].handle);
  EXPECT_TRUE(transport_.landing_memory().empty());
}

TEST_F(OneSidedPortTest, RefusesPullsOutsideRegionsMemoryAndSessions) {
  pull(1, kRegionBytes + 1);
  pull(2, 5 * kPieceBytes);
  pull(3, 100, kTwo + 1);
  const auto ended = pulled();
  ASSERT_EQ(ended.size(), 3U);
  EXPECT_EQ(ended[0].status, Status::kBadRegion);
  EXPECT_EQ(ended[1].status, Status::kNoMemory) << "more than all landing memory";
  EXPECT_EQ(ended[2].status, Status::kPeerLost);
  EXPECT_THAT(transport_.asked(), IsEmpty());
}

TEST_F(OneSidedPortTest, PullsWaitForLandingMemoryInOrder) {
  pull(1, 3 * kPieceBytes);
  pull(2, 2 * kPieceBytes);
  pull(3, kPieceBytes);  // has room, and waits behind the other
  EXPECT_THAT(transport_.asked(), ElementsAre("read"));
  transport_.end_oldest();
  transport_.release(pulled()[0].handle);
  EXPECT_THAT(transport_.asked(), ElementsAre("read", "read"));
  transport_.end_oldest();
  transport_.end_oldest();
  const auto ended = pulled();
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].user, 2U);
  EXPECT_EQ(ended[1].user, 3U);
}

TEST_F(OneSidedPortTest, CompletionFollowsEagerWriteOfItsResult) {
  transport_.largest_eager = 100;
  transport_.takes_operations = false;  // the network takes messages
  push(1);
  ASSERT_EQ(pushed().size(), 1U) << "answered before it is placed";
  complete();
  EXPECT_THAT(transport_.asked(), IsEmpty());
  transport_.takes_operations = true;
  take_all();
  EXPECT_THAT(transport_.asked(), ElementsAre("write", "completion"));
  transport_.end_oldest();
  EXPECT_THAT(pushed(), IsEmpty()) << "answered once";
  EXPECT_TRUE(transport_.landing_memory().empty());
}

TEST_F(OneSidedPortTest, LimitsEagerWritesOfOnePeer) {
  transport_.largest_eager = 8;
  transport_.room = 0;
  for (std::uint64_t i = 0; i < 20; ++i) push(i, 8);
  EXPECT_LT(pushed().size(), 20U) << "the others are written, and answered when they are placed";
  take_all();
  for (int i = 0; i < 20; ++i) transport_.end_oldest();
  EXPECT_TRUE(transport_.landing_memory().empty());
}

TEST_F(OneSidedPortTest, LosesPeerWithoutEndedOperationFor4s) {
  lost(0);
  push(1);
  push(2, 100, kTwo);
  for (Nanos now = kSecond; now <= 4 * kSecond; now += kSecond) {
    EXPECT_THAT(lost(now), IsEmpty()) << "after " << now / kSecond << " s";
  }
  EXPECT_THAT(lost(5 * kSecond), ElementsAre(kOne, kTwo));
  EXPECT_THAT(transport_.why_lost(kOne), testing::HasSubstr("1 operations"));
  EXPECT_THAT(lost(60 * kSecond), IsEmpty()) << "reported once";
}

TEST_F(OneSidedPortTest, DetachAnswersAllOperationsOfPeer) {
  pull(1);
  transport_.room = 0;
  push(2);
  pull(3);
  pull(4, 100, kTwo);
  transport_.detach(kOne);
  EXPECT_EQ(transport_.attached_count(), 1U);
  std::vector<std::uint64_t> reads;
  for (const Pulled& ended : pulled()) {
    EXPECT_EQ(ended.status, Status::kPeerLost);
    reads.push_back(ended.user);
  }
  EXPECT_THAT(reads, testing::UnorderedElementsAre(1, 3));
  const auto writes = pushed();
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_EQ(writes[0].status, Status::kPeerLost);
}

TEST_F(OneSidedPortTest, LosesOnlyThePeerThatTakesNoCompletions) {
  transport_.room = 0;
  for (int i = 0; i < 8192; ++i) complete();
  EXPECT_THAT(lost(0), IsEmpty());
  complete();
  EXPECT_THAT(lost(0), ElementsAre(kOne));
  take_all();
  complete(kTwo);
  EXPECT_THAT(transport_.asked(), ElementsAre("completion"));
}

TEST_F(OneSidedPortTest, LosesPeerThatSendsMoreNoticesThanAnyCredit) {
  for (int i = 0; i < 8192; ++i) transport_.come(kOne, {});
  EXPECT_THAT(lost(0), IsEmpty());
  transport_.come(kOne, {});
  EXPECT_THAT(lost(0), ElementsAre(kOne));
}

}  // namespace
}  // namespace tally::transport::onesided
