// The transport over devices of this process, with clients made by hand.
#include "dataplane/transport/verbs/verbs_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/support/transport/verbs_transport_fixture.h"

namespace tally::transport::verbs {
namespace {

using ::testing::HasSubstr;

TEST_F(VerbsTransportTest, BytesGoBothWays) {
  expect_served(kFirst, first_);
  EXPECT_EQ(first_.memory[1], std::byte{42});
  EXPECT_EQ(first_.memory[100], std::byte{42});
  EXPECT_EQ(first_.memory[101], std::byte{101});
}

TEST_F(VerbsTransportTest, ACompletionIsAMessage) {
  Message message{kFirst, {}};
  message.message.bytes[5] = std::byte{99};
  transport_->complete({&message, 1});
  EXPECT_EQ(first_.entries[0].bytes[5], std::byte{99});
}

TEST_F(VerbsTransportTest, TheReceiveQueueIsAsDeepAsTheCredit) {
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < kCredit; ++i) first_.send(static_cast<std::uint8_t>(i));
    const auto come = notices();
    ASSERT_EQ(come.size(), kCredit);
    for (std::uint32_t i = 0; i < kCredit; ++i) {
      EXPECT_EQ(come[i].message.bytes[0], std::byte{static_cast<std::uint8_t>(i)});
    }
    std::array<ibv_wc, 64> taken;
    ASSERT_EQ(api_.poll_cq(first_.queue(), 64, taken.data()), static_cast<int>(kCredit));
  }
}

TEST_F(VerbsTransportTest, AnEmptyMessageIsTakenAndIgnored) {
  first_.send(1, 0);
  EXPECT_TRUE(notices().empty());
  expect_served(kFirst, first_);
}

// As long as a packet can be: more than there is room for behind any other message.
TEST_F(VerbsTransportTest, AProbeIsTakenAndIgnored) {
  first_.send_bytes(kProbeBytes, IBV_WR_SEND_WITH_IMM);
  EXPECT_TRUE(notices().empty());
  EXPECT_TRUE(lost().empty());
  for (std::uint32_t i = 0; i < 2 * kCredit; ++i) expect_served(kFirst, first_);
}

TEST_F(VerbsTransportTest, AFirstMessageThatIsTooLongAndNoProbeEndsItsSession) {
  first_.send_bytes(sizeof(RingEntry) + kEagerBytes + 1, IBV_WR_SEND);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(transport_->why_lost(kFirst), "it sent a message of 2113 bytes");
  expect_served(kSecond, second_);
}

TEST_F(VerbsTransportTest, AMessageOfAnotherLengthEndsItsSessionAlone) {
  first_.send(1, 63);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(transport_->why_lost(kFirst), "it sent a message of 63 bytes");
  expect_served(kSecond, second_);
}

TEST_F(VerbsTransportTest, NoMoreReadsThanThePeerAnswersAndOneListForABurst) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 40; ++i) pulls.push_back({{kFirst, 1, i * 4096, 4096}, i});
  const std::size_t before = api_.lists_posted();
  transport_->pull(pulls);
  EXPECT_EQ(api_.held(IBV_WR_RDMA_READ), 16U);
  EXPECT_EQ(api_.lists_posted(), before + 1);
  // Pushes do not wait behind reads.
  const Push wanted{{{kFirst, 1, 0, 64}, nullptr}, tiles_.data(), 8};
  transport_->push({&wanted, 1});
  EXPECT_EQ(api_.held(IBV_WR_RDMA_WRITE), 1U);
  api_.let_go();
  std::array<Pulled, 64> answers;
  std::size_t count = 0;
  for (int turn = 0; turn < 8 && count < pulls.size(); ++turn) {
    notices();
    count += transport_->pulled(std::span(answers).subspan(count));
  }
  EXPECT_EQ(count, pulls.size());
}

TEST_F(VerbsTransportTest, TheSendQueueNeverOverruns) {
  api_.hold();
  std::vector<Push> pushes;
  for (std::uint64_t i = 0; i < 500; ++i) {
    pushes.push_back({{{kFirst, 1, i * 64, 64}, nullptr}, tiles_.data(), i});
  }
  transport_->push(pushes);
  std::vector<Message> messages(50, Message{kFirst, {}});
  transport_->complete(messages);
  EXPECT_LE(api_.held(IBV_WR_RDMA_WRITE), 64U);
  api_.let_go();
  std::size_t count = 0;
  std::array<Pushed, 64> answers;
  for (int turn = 0; turn < 50 && count < pushes.size(); ++turn) {
    notices();
    count += transport_->pushed(answers);
  }
  EXPECT_EQ(count, pushes.size());
}

TEST_F(VerbsTransportTest, NobodyHasAccessToTheNodesMemory) {
  EXPECT_EQ(api_.remote_access("node"), 0U);
  EXPECT_EQ(api_.remote_access("one"), kNodesAccess);
}

TEST_F(VerbsTransportTest, AWorkerThatTakesNoCompletionsIsLostAndAloneInThat) {
  const std::vector<Message> messages(first_.pair.sizes().receives, Message{kFirst, {}});
  for (std::size_t i = 0; i < messages.size(); ++i) {
    transport_->complete({&messages[i], 1});
    notices();
  }
  api_.exhaust_retries();
  EXPECT_TRUE(lost().empty());
  transport_->complete({messages.data(), 1});  // for this one it has no buffer
  EXPECT_TRUE(lost().empty());
  api_.exhaust_retries();
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(transport_->why_lost(kFirst), "it has taken no messages for a second");
  expect_served(kSecond, second_);
}

TEST_F(VerbsTransportTest, PushesFromElsewhereAreCopied) {
  const std::vector<std::byte> elsewhere(5000, std::byte{7});
  EXPECT_EQ(push({kFirst, 1, 0, 5000}, elsewhere.data()).status, Status::kOk);
  EXPECT_EQ(first_.memory[4999], std::byte{7});
  expect_served(kFirst, first_);
}

TEST_F(VerbsTransportTest, AWorkerThatIsCutOffIsLostAndAloneInThat) {
  api_.cut("one");
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_THAT(transport_->why_lost(kFirst), HasSubstr("does not answer"));
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  expect_served(kSecond, second_);
}

// What fails leaves its landing memory to those who wait for some.
TEST_F(VerbsTransportTest, AWorkerThatIsLostHoldsUpNobody) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 16; ++i) pulls.push_back({{kFirst, 1, 0, 64 << 10}, i});
  pulls.push_back({{kSecond, 1, 0, 64 << 10}, 99});
  transport_->pull(pulls);  // the last one finds no room
  api_.cut("one");
  api_.let_go();
  std::array<Pulled, 32> answers;
  std::size_t count = 0;
  for (int turn = 0; turn < 4; ++turn) {
    notices();
    count += transport_->pulled(std::span(answers).subspan(count));
  }
  ASSERT_GT(count, 0U);
  const auto served = std::find_if(answers.begin(), answers.end(),
                                   [](const Pulled& one) { return one.user == 99; });
  ASSERT_NE(served, answers.end());
  EXPECT_EQ(served->status, Status::kOk);
}

TEST_F(VerbsTransportTest, MemoryThatHasGoneEndsTheSession) {
  first_.withdraw();
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_THAT(transport_->why_lost(kFirst), HasSubstr("not registered for reading and writing"));
}

TEST_F(VerbsTransportTest, RangesAreCheckedBeforeTheyAreUsed) {
  EXPECT_TRUE(transport_->covers({kFirst, 1, 0, kMemory}));
  EXPECT_FALSE(transport_->covers({kFirst, 1, 1, kMemory}));
  EXPECT_FALSE(transport_->covers({kFirst, 2, 0, 1}));
  EXPECT_FALSE(transport_->covers({4, 1, 0, 1}));
  EXPECT_FALSE(transport_->covers({kFirst, 1, UINT64_MAX, 2}));
}

TEST_F(VerbsTransportTest, ABadQueuePairCostsItsSession) {
  api_.announce(IBV_EVENT_QP_ACCESS_ERR, api_.peer_of(first_.pair.number()));
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  expect_served(kSecond, second_);
}

class WhatCostsAll : public VerbsTransportTest,
                     public ::testing::WithParamInterface<ibv_event_type> {};

TEST_P(WhatCostsAll, EndsEverySessionAndTheNodeReportsIt) {
  api_.announce(GetParam());
  EXPECT_EQ(lost(), (std::vector<Peer>{kFirst, kSecond}));
  EXPECT_THAT(transport_->why_lost(kSecond), HasSubstr("RDMA device node failed"));
  transport_->detach(kFirst);
  const auto refused = attach(kFirst, first_);
  EXPECT_THAT(refused.error().message, HasSubstr("start the node again"));
}

INSTANTIATE_TEST_SUITE_P(Events, WhatCostsAll,
                         ::testing::Values(IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR));

TEST_F(VerbsTransportTest, APortThatGoesDownIsLeftToTheConnections) {
  api_.announce(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(lost().empty());
  expect_served(kFirst, first_);
}

TEST_F(VerbsTransportTest, ItSleepsOnlyWhenThereIsNothing) {
  EXPECT_TRUE(transport_->arm());
  first_.send(5);
  EXPECT_FALSE(transport_->arm());
  EXPECT_EQ(notices().size(), 1U);
  EXPECT_TRUE(transport_->arm());
}

// The event's descriptor is empty once the transport has read it: nothing would end the sleep.
TEST_F(VerbsTransportTest, ALossThatItLearnsOfOnTheWayToSleepKeepsItAwake) {
  EXPECT_TRUE(transport_->arm());
  api_.announce(IBV_EVENT_QP_FATAL, api_.peer_of(first_.pair.number()));
  EXPECT_FALSE(transport_->arm());
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_TRUE(transport_->arm()) << "it has been reported";
}

}  // namespace
}  // namespace tally::transport::verbs
