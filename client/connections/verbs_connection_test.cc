// The client's end of transport verbs, against a shard's transport, over devices of this process.
#include <gmock/gmock.h>

#include <cerrno>

#include "base/system/memory_limit.h"
#include "dataplane/wire/completion.h"
#include "tests/support/client/verbs_connection_fixture.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

TEST_F(VerbsConnectionTest, NoticesGoOutAndCompletionsComeIn) {
  auto connection = attached();
  EXPECT_TRUE(notices(0).empty());  // the first message was empty
  wire::Notice notice{};
  notice.tag = 17;
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(connection->send(1, notice, {}));
    ASSERT_EQ(notices(1).size(), 1U);
    complete(1, static_cast<std::uint8_t>(round));
    std::array<RingEntry, 4> entries;
    EXPECT_EQ(connection->receive(0, entries), 0U);
    ASSERT_EQ(connection->receive(1, entries), 1U);
    EXPECT_EQ(entries[0].bytes[0], std::byte{static_cast<std::uint8_t>(round)});
  }
  EXPECT_FALSE(connection->broken());
}

// As many at a time as the node has room for; every one arrives whole, whatever else is sent.
TEST_F(VerbsConnectionTest, ContributionsGoWithTheirNoticesWhileThereIsRoom) {
  auto connection = attached();
  EXPECT_EQ(connection->eager_bytes(), verbs::kEagerBytes);
  wire::Notice notice{};
  notice.count = 1;
  notice.in_region = 1;
  for (std::uint32_t round = 0; round < 50; ++round) {
    std::vector<std::uint32_t> eager;
    for (std::uint32_t i = 0; i < verbs::kEagerPieces + 1; ++i) {
      const std::vector<std::byte> contribution(100 + round, std::byte(round * 8 + i));
      notice.cookie = 100 + i;
      ASSERT_TRUE(connection->send(1, notice, contribution));
      wire::Notice seen;
      const auto come = notices(1);
      ASSERT_EQ(come.size(), 1U);
      ASSERT_EQ(wire::parse(come[0].message, seen), Status::kOk);
      EXPECT_EQ(seen.in_region == 1, i == verbs::kEagerPieces);
      if (seen.in_region != 1) eager.push_back(seen.in_region);
    }
    for (std::uint32_t i = 0; i < eager.size(); ++i) {
      const transport::Pull wanted{{kPeer, eager[i], 0, 100 + round}, 3};
      transports_[1]->pull({&wanted, 1});
      transport::Pulled answer;
      ASSERT_EQ(transports_[1]->pulled({&answer, 1}), 1U);
      EXPECT_EQ(answer.view[0].data[99 + round], std::byte(round * 8 + i));
      transports_[1]->release(answer.handle);
    }
    for (std::uint32_t i = 0; i < verbs::kEagerPieces + 1; ++i) {
      wire::Completion completion;
      completion.cookie = 100 + i;
      const transport::Message message{kPeer, wire::encode(completion)};
      transports_[1]->complete({&message, 1});
    }
    std::array<RingEntry, 8> entries;
    EXPECT_EQ(connection->receive(1, entries), verbs::kEagerPieces + 1);
  }
}

TEST_F(VerbsConnectionTest, TheNodeReachesARegionUntilItIsWithdrawn) {
  auto connection = attached();
  std::vector<std::byte> memory(10'000, std::byte{1});
  const auto region = Region::borrow(memory.data(), memory.size());
  const auto offer = connection->offer(*region);
  ASSERT_TRUE(offer.ok());
  know(*offer);
  EXPECT_EQ(push(50, 9), Status::kOk);
  EXPECT_EQ(memory[149], std::byte{9});
  memory[149] = std::byte{1};
  connection->withdraw(*region);
  EXPECT_EQ(push(50, 9), Status::kPeerLost);
  EXPECT_EQ(memory[149], std::byte{1});
}

TEST_F(VerbsConnectionTest, AfterTheFenceNothingArrives) {
  auto connection = attached();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  know(connection->offer(*region).value());
  EXPECT_TRUE(connection->fence(monotonic_now()));
  const std::vector<std::byte> sum(4096, std::byte{9});
  const transport::Push wanted{{{kPeer, 1, 0, 4096}, nullptr}, sum.data(), 3};
  transports_[0]->push({&wanted, 1});
  notices(0);
  transport::Pushed answer{};
  ASSERT_EQ(transports_[0]->pushed({&answer, 1}), 1U);
  EXPECT_EQ(answer.status, Status::kPeerLost);
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
  std::array<RingEntry, 4> entries;
  EXPECT_EQ(connection->receive(0, entries), 0U);
  EXPECT_FALSE(connection->send(0, wire::Notice{}, {}));
}

TEST_F(VerbsConnectionTest, AFenceHoldsWhenTheDeviceHasEndedEveryQueuePair) {
  auto connection = attached();
  api_.fail(verbs::Call::kDestroyPair, EBUSY, 1);  // the second one's
  EXPECT_FALSE(connection->fence(0));
  EXPECT_FALSE(connection->send(0, wire::Notice{}, {}));
  api_.fail(verbs::Call::kDestroyPair, EBUSY, 0, 2);
  EXPECT_TRUE(connection->fence(kForever));  // it goes on trying
}

TEST_F(VerbsConnectionTest, ItsDescriptorIsReadableAfterCompletionsAndAfterTheEnd) {
  auto connection = attached();
  ASSERT_TRUE(connection->arm(kForever));
  EXPECT_FALSE(readable(*connection));
  complete(0, 1);
  EXPECT_TRUE(readable(*connection));
  EXPECT_FALSE(connection->arm(kForever));  // there is one to be taken
  std::array<RingEntry, 4> entries;
  EXPECT_EQ(connection->receive(0, entries), 1U);
  EXPECT_TRUE(connection->arm(kForever));
  EXPECT_FALSE(connection->read_events());
  there_.reset();
  EXPECT_TRUE(connection->read_events());
  EXPECT_EQ(connection->why_gone(), "it died or closed the connection");
}

TEST_F(VerbsConnectionTest, DetectsAPathThatDropsAllPackets) {
  auto connection = VerbsConnection::make(api_, options()).value();
  const nlohmann::json names = answer(*connection);
  api_.cut("node");
  const auto done = connection->attached(names, monotonic_now() + kSecond);
  EXPECT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              HasSubstr("no packets get from worker (10.0.0.1) to the node's 10.0.0.1: it does not "
                        "answer"));
}

// A switch in between that has a smaller MTU than both ends.
TEST_F(VerbsConnectionTest, DetectsAPathThatDropsLongPackets) {
  api_.pass_at_most(1500);
  auto connection = VerbsConnection::make(api_, options()).value();
  const auto done = connection->attached(answer(*connection), monotonic_now() + kSecond);
  ASSERT_EQ(done.status(), Status::kUnsupported);
  EXPECT_THAT(done.error().message,
              HasSubstr("does not answer: its machine is down or cut off, or the way to it loses "
                        "packets (tried with 4096 bytes; where switches pass only smaller ones, "
                        "network.mtu of the node makes them so)"));
  for (auto& transport : transports_) transport = open_transport(1024);
  EXPECT_TRUE(attached()->why_gone().find("RDMA") == std::string::npos);
}

TEST_F(VerbsConnectionTest, ANodeOfAnOlderVersionGetsAnEmptyMessage) {
  api_.pass_at_most(100);
  VerbsConnectionOptions before = options();
  before.probe_bytes = 0;
  auto connection = attached(before);
  EXPECT_TRUE(connection->send(0, wire::Notice{}, {}));
  EXPECT_EQ(notices(0).size(), 1U);
}

TEST_F(VerbsConnectionTest, ABrokenConnectionGivesTheReason) {
  auto connection = attached();
  api_.cut("worker");
  connection->send(0, wire::Notice{}, {});
  EXPECT_TRUE(connection->read_events());
  EXPECT_THAT(connection->why_gone(), HasSubstr("the RDMA connection failed: it does not answer"));
}

TEST_F(VerbsConnectionTest, ANodeThatTakesNoNoticesIsGivenUp) {
  auto connection = attached();
  while (api_.held(IBV_WR_SEND) == 0) ASSERT_TRUE(connection->send(0, wire::Notice{}, {}));
  EXPECT_FALSE(connection->read_events());
  api_.exhaust_retries();
  EXPECT_TRUE(connection->read_events());
  EXPECT_EQ(connection->why_gone(),
            "the RDMA connection failed: it has taken no messages for a second");
}

TEST_F(VerbsConnectionTest, FailuresOfTheDeviceEndTheSession) {
  for (const auto& [event, why] : {std::pair{IBV_EVENT_DEVICE_FATAL, "the RDMA device failed"},
                                   std::pair{IBV_EVENT_CQ_ERR, "lost a completion queue"},
                                   std::pair{IBV_EVENT_QP_FATAL, "gave a queue pair up"}}) {
    auto connection = attached();
    EXPECT_FALSE(connection->read_events());
    api_.announce(event);
    EXPECT_TRUE(connection->read_events());
    EXPECT_THAT(connection->why_gone(), HasSubstr(why));
    for (auto& transport : transports_) transport = open_transport();
  }
}

TEST_F(VerbsConnectionTest, AnAnswerThatCannotBeReadIsRefused) {
  auto connection = VerbsConnection::make(api_, options()).value();
  for (const char* text : {"[]", "{}", "[1,2]", "[\"\",\"\"]", "[\"zz\",\"zz\"]"}) {
    const auto done = connection->attached(nlohmann::json::parse(text), monotonic_now());
    EXPECT_EQ(done.status(), Status::kProtocol) << text;
  }
}

TEST_F(VerbsConnectionTest, AFailedSetUpReleasesEverything) {
  const std::size_t before = api_.objects();
  using verbs::Call;
  const std::array<std::pair<Call, int>, 9> steps = {{{Call::kOpen, 0},
                                                      {Call::kProtectionDomain, 0},
                                                      {Call::kChannel, 0},
                                                      {Call::kQueue, 0},
                                                      {Call::kModify, 0},
                                                      {Call::kModify, 1},
                                                      {Call::kRegister, 1},
                                                      {Call::kPostReceive, 0},
                                                      {Call::kPostReceive, 20}}};
  for (const auto& [call, after] : steps) {
    api_.fail(call, ENOMEM, after);
    const auto made = VerbsConnection::make(api_, options());
    ASSERT_FALSE(made.ok()) << static_cast<int>(call) << after;
    EXPECT_EQ(api_.objects(), before);
    if (call != Call::kQueue) continue;
    EXPECT_THAT(made.error().message, HasSubstr(memory_limit()));
  }
  auto connection = attached();
  std::vector<std::byte> memory(4096);
  const auto region = Region::borrow(memory.data(), memory.size());
  api_.fail(Call::kRegister, ENOMEM);
  EXPECT_EQ(connection->offer(*region).status(), Status::kNoMemory);
  connection.reset();
  for (auto& transport : transports_) transport->detach(kPeer);
  EXPECT_EQ(api_.objects(), before);
}

}  // namespace
}  // namespace tally::client
