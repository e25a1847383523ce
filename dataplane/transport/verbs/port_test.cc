// The port over devices of this process, with clients made by hand.
#include "dataplane/transport/verbs/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/transport/verbs/port_fixture.h"

namespace tally::transport::verbs {
namespace {

using ::testing::HasSubstr;

TEST_F(VerbsPort, BytesGoBothWays) {
  expect_served(kFirst, first_);
  EXPECT_EQ(first_.memory[1], std::byte{42});
  EXPECT_EQ(first_.memory[100], std::byte{42});
  EXPECT_EQ(first_.memory[101], std::byte{101});
}

TEST_F(VerbsPort, ACompletionIsAMessage) {
  Message message{kFirst, {}};
  message.message.bytes[5] = std::byte{99};
  port_->complete({&message, 1});
  EXPECT_EQ(first_.slots[0].bytes[5], std::byte{99});
}

TEST_F(VerbsPort, TheReceiveQueueIsAsDeepAsTheCredit) {
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

TEST_F(VerbsPort, AnEmptyMessageIsTakenAndIgnored) {
  first_.send(1, 0);
  EXPECT_TRUE(notices().empty());
  expect_served(kFirst, first_);
}

// As long as a packet can be: more than there is room for behind any other message.
TEST_F(VerbsPort, AProbeIsTakenAndIgnored) {
  first_.send_bytes(kProbeBytes, IBV_WR_SEND_WITH_IMM);
  EXPECT_TRUE(notices().empty());
  EXPECT_TRUE(lost().empty());
  for (std::uint32_t i = 0; i < 2 * kCredit; ++i) expect_served(kFirst, first_);
}

TEST_F(VerbsPort, AFirstMessageThatIsTooLongAndNoProbeEndsItsSession) {
  first_.send_bytes(sizeof(RingSlot) + kEagerBytes + 1, IBV_WR_SEND);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(port_->why_lost(kFirst), "it sent a message of 2113 bytes");
  expect_served(kSecond, second_);
}

TEST_F(VerbsPort, AMessageOfAnotherLengthEndsItsSessionAlone) {
  first_.send(1, 63);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(port_->why_lost(kFirst), "it sent a message of 63 bytes");
  expect_served(kSecond, second_);
}

TEST_F(VerbsPort, NoMoreReadsThanThePeerAnswersAndOneListForABurst) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 40; ++i) pulls.push_back({{kFirst, 1, i * 4096, 4096}, i});
  const std::size_t before = api_.lists_posted();
  port_->pull(pulls);
  EXPECT_EQ(api_.held(IBV_WR_RDMA_READ), 16U);
  EXPECT_EQ(api_.lists_posted(), before + 1);
  // Pushes do not wait behind reads.
  const Push wanted{{{kFirst, 1, 0, 64}, nullptr}, tiles_.data(), 8};
  port_->push({&wanted, 1});
  EXPECT_EQ(api_.held(IBV_WR_RDMA_WRITE), 1U);
  api_.let_go();
  std::array<Pulled, 64> answers;
  std::size_t count = 0;
  for (int turn = 0; turn < 8 && count < pulls.size(); ++turn) {
    notices();
    count += port_->pulled(std::span(answers).subspan(count));
  }
  EXPECT_EQ(count, pulls.size());
}

TEST_F(VerbsPort, TheSendQueueNeverOverruns) {
  api_.hold();
  std::vector<Push> pushes;
  for (std::uint64_t i = 0; i < 500; ++i) {
    pushes.push_back({{{kFirst, 1, i * 64, 64}, nullptr}, tiles_.data(), i});
  }
  port_->push(pushes);
  std::vector<Message> messages(50, Message{kFirst, {}});
  port_->complete(messages);
  EXPECT_LE(api_.held(IBV_WR_RDMA_WRITE), 64U);
  api_.let_go();
  std::size_t count = 0;
  std::array<Pushed, 64> answers;
  for (int turn = 0; turn < 50 && count < pushes.size(); ++turn) {
    notices();
    count += port_->pushed(answers);
  }
  EXPECT_EQ(count, pushes.size());
}

TEST_F(VerbsPort, NobodyHasAccessToTheNodesMemory) {
  EXPECT_EQ(api_.remote_access("node"), 0U);
  EXPECT_EQ(api_.remote_access("one"), kNodesAccess);
}

TEST_F(VerbsPort, AWorkerThatTakesNoCompletionsIsLostAndAloneInThat) {
  const std::vector<Message> messages(first_.pair.sizes().receives, Message{kFirst, {}});
  for (std::size_t i = 0; i < messages.size(); ++i) {
    port_->complete({&messages[i], 1});
    notices();
  }
  api_.lose_patience();
  EXPECT_TRUE(lost().empty());
  port_->complete({messages.data(), 1});  // for this one it has no buffer
  EXPECT_TRUE(lost().empty());
  api_.lose_patience();
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_EQ(port_->why_lost(kFirst), "it has taken no messages for a second");
  expect_served(kSecond, second_);
}

TEST_F(VerbsPort, PushesFromElsewhereAreCopied) {
  const std::vector<std::byte> elsewhere(5000, std::byte{7});
  EXPECT_EQ(push({kFirst, 1, 0, 5000}, elsewhere.data()).status, Status::kOk);
  EXPECT_EQ(first_.memory[4999], std::byte{7});
  expect_served(kFirst, first_);
}

TEST_F(VerbsPort, AWorkerThatIsCutOffIsLostAndAloneInThat) {
  api_.cut("one");
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_THAT(port_->why_lost(kFirst), HasSubstr("does not answer"));
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  expect_served(kSecond, second_);
}

// What fails leaves its landing memory to those who wait for some.
TEST_F(VerbsPort, AWorkerThatIsLostHoldsUpNobody) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 16; ++i) pulls.push_back({{kFirst, 1, 0, 64 << 10}, i});
  pulls.push_back({{kSecond, 1, 0, 64 << 10}, 99});
  port_->pull(pulls);  // the last one finds no room
  api_.cut("one");
  api_.let_go();
  std::array<Pulled, 32> answers;
  std::size_t count = 0;
  for (int turn = 0; turn < 4; ++turn) {
    notices();
    count += port_->pulled(std::span(answers).subspan(count));
  }
  ASSERT_GT(count, 0U);
  const auto served = std::find_if(answers.begin(), answers.end(),
                                   [](const Pulled& one) { return one.user == 99; });
  ASSERT_NE(served, answers.end());
  EXPECT_EQ(served->status, Status::kOk);
}

TEST_F(VerbsPort, MemoryThatHasGoneEndsTheSession) {
  first_.withdraw();
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_THAT(port_->why_lost(kFirst), HasSubstr("not registered for reading and writing"));
}

TEST_F(VerbsPort, RangesAreCheckedBeforeTheyAreUsed) {
  EXPECT_TRUE(port_->covers({kFirst, 1, 0, kMemory}));
  EXPECT_FALSE(port_->covers({kFirst, 1, 1, kMemory}));
  EXPECT_FALSE(port_->covers({kFirst, 2, 0, 1}));
  EXPECT_FALSE(port_->covers({4, 1, 0, 1}));
  EXPECT_FALSE(port_->covers({kFirst, 1, UINT64_MAX, 2}));
}

TEST_F(VerbsPort, ABadQueuePairCostsItsSession) {
  api_.announce(IBV_EVENT_QP_ACCESS_ERR, api_.peer_of(first_.pair.number()));
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  expect_served(kSecond, second_);
}

class WhatCostsAll : public VerbsPort, public ::testing::WithParamInterface<ibv_event_type> {};

TEST_P(WhatCostsAll, EndsEverySessionAndTheNodeSaysSo) {
  api_.announce(GetParam());
  EXPECT_EQ(lost(), (std::vector<Peer>{kFirst, kSecond}));
  EXPECT_THAT(port_->why_lost(kSecond), HasSubstr("RDMA device node failed"));
  port_->detach(kFirst);
  const auto refused = attach(kFirst, first_);
  EXPECT_THAT(refused.error().message, HasSubstr("start the node again"));
}

INSTANTIATE_TEST_SUITE_P(Events, WhatCostsAll,
                         ::testing::Values(IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR));

TEST_F(VerbsPort, APortThatGoesDownIsLeftToTheConnections) {
  api_.announce(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(lost().empty());
  expect_served(kFirst, first_);
}

TEST_F(VerbsPort, ItSleepsOnlyWhenThereIsNothing) {
  EXPECT_TRUE(port_->arm());
  first_.send(5);
  EXPECT_FALSE(port_->arm());
  EXPECT_EQ(notices().size(), 1U);
  EXPECT_TRUE(port_->arm());
}

// The event's descriptor is empty once the port has read it: nothing would end the sleep.
TEST_F(VerbsPort, ALossThatItLearnsOfOnTheWayToSleepKeepsItAwake) {
  EXPECT_TRUE(port_->arm());
  api_.announce(IBV_EVENT_QP_FATAL, api_.peer_of(first_.pair.number()));
  EXPECT_FALSE(port_->arm());
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_TRUE(port_->arm()) << "it has been reported";
}

}  // namespace
}  // namespace tally::transport::verbs
