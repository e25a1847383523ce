// The port over devices of this process, with clients made by hand.
#include "dataplane/transport/verbs/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

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

TEST_F(VerbsPort, WhatIsUnderWayIsFlushedAndAnsweredOnce) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 30; ++i) pulls.push_back({{kFirst, 1, 0, 4096}, i});
  port_->pull(pulls);
  const Push wanted{{{kFirst, 1, 0, 64}, nullptr}, tiles_.data(), 8};
  port_->push({&wanted, 1});
  port_->detach(kFirst);
  std::array<Pulled, 64> pulled;
  std::array<Pushed, 64> pushed;
  EXPECT_EQ(port_->pulled(pulled), 30U);
  EXPECT_EQ(port_->pushed(pushed), 1U);
  EXPECT_EQ(pulled[29].status, Status::kPeerLost);
  EXPECT_EQ(pushed[0].status, Status::kPeerLost);
  api_.let_go();
  EXPECT_TRUE(notices().empty());
  EXPECT_EQ(port_->pulled(pulled), 0U);
  expect_served(kSecond, second_);
}

TEST_F(VerbsPort, MemoryThatHasGoneEndsTheSession) {
  first_.withdraw();
  EXPECT_EQ(pull({kFirst, 1, 0, 4096}).status, Status::kPeerLost);
  EXPECT_EQ(lost(), std::vector<Peer>{kFirst});
  EXPECT_THAT(port_->why_lost(kFirst), HasSubstr("not registered any more"));
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

TEST_F(VerbsPort, ADeviceThatFailsCostsAll) {
  api_.announce(IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(lost(), (std::vector<Peer>{kFirst, kSecond}));
  EXPECT_THAT(port_->why_lost(kSecond), HasSubstr("RDMA device node failed"));
  port_->detach(kFirst);
  const auto refused = port_->attach(kFirst, first_.pair.address());
  EXPECT_THAT(refused.error().message, HasSubstr("start the node again"));
}

TEST_F(VerbsPort, APortThatGoesDownIsLeftToTheConnections) {
  api_.announce(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(lost().empty());
  expect_served(kFirst, first_);
}

TEST_F(VerbsPort, AnAttachThatFailsLeavesNothing) {
  const std::size_t before = api_.objects();
  Client third(api_, "one");
  const std::size_t with_client = api_.objects();
  const std::array<std::pair<Call, int>, 7> steps = {{{Call::kPair, 0},
                                                      {Call::kModify, 0},
                                                      {Call::kRegister, 0},
                                                      {Call::kPostReceive, 0},
                                                      {Call::kPostReceive, 20},
                                                      {Call::kModify, 1},
                                                      {Call::kModify, 2}}};
  for (const auto& [call, after] : steps) {
    api_.fail(call, ENOMEM, after, call == Call::kPair ? 2 : 1);  // it is tried twice
    EXPECT_FALSE(port_->attach(7, third.pair.address()).ok()) << static_cast<int>(call) << after;
    EXPECT_EQ(api_.objects(), with_client);
  }
  join(7, third);
  EXPECT_EQ(api_.objects(), with_client + 2);
  port_->detach(7);
  expect_served(kFirst, first_);
  EXPECT_GT(with_client, before);
}

TEST_F(VerbsPort, ManySessionsHaveRoomInTheQueueOrAreRefused) {
  std::vector<std::unique_ptr<Client>> clients;
  for (Peer peer = 10; peer < 30; ++peer) {
    join(peer, *clients.emplace_back(std::make_unique<Client>(api_, "one")));
  }
  EXPECT_EQ(port_->sessions(), 22U);
  for (auto& client : clients) {
    for (std::uint32_t i = 0; i < kCredit; ++i) client->send(1);
  }
  std::size_t come = 0;
  for (int turn = 0; turn < 100; ++turn) come += notices().size();
  EXPECT_EQ(come, 20 * kCredit);
  while (clients.size() < 60) clients.push_back(std::make_unique<Client>(api_, "one"));
  // A queue that cannot grow gets another beside it; where there is none, sessions are refused.
  api_.fail(Call::kResize, ENOMEM, 0, 1000);
  for (Peer peer = 30; peer < 70; ++peer) {
    if (peer == 50) api_.fail(Call::kQueue, ENOMEM, 0, 1000);
    const auto address = port_->attach(peer, clients[peer - 10]->pair.address());
    if (address.ok()) continue;
    EXPECT_GE(peer, 50U);
    EXPECT_THAT(address.error().message, HasSubstr("a completion queue of "));
    return expect_served(kFirst, first_);
  }
  FAIL() << "no session was refused";
}

TEST_F(VerbsPort, ItSleepsOnlyWhenThereIsNothing) {
  EXPECT_TRUE(port_->arm());
  first_.send(5);
  EXPECT_FALSE(port_->arm());
  EXPECT_EQ(notices().size(), 1U);
  EXPECT_TRUE(port_->arm());
}

TEST_F(VerbsPort, WhatCannotBeOpenedLeavesNothing) {
  port_.reset();
  EXPECT_EQ(api_.objects(), clients_);
  const std::array<std::pair<Call, int>, 6> steps = {{{Call::kOpen, 0},
                                                      {Call::kProtectionDomain, 0},
                                                      {Call::kChannel, 0},
                                                      {Call::kQueue, 0},
                                                      {Call::kRegister, 0},
                                                      {Call::kRegister, 1}}};
  for (const auto& [call, after] : steps) {
    api_.fail(call, ENOMEM, after);
    EXPECT_FALSE(Port::open(api_, options()).ok());
    EXPECT_EQ(api_.objects(), clients_);
  }
}

}  // namespace
}  // namespace tally::transport::verbs
