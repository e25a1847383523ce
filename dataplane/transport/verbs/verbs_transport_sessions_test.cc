// The transport: how it begins and ends, and how sessions come and go beside others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/system/memory_limit.h"
#include "tests/support/transport/verbs_transport_fixture.h"

namespace tally::transport::verbs {
namespace {

using ::testing::HasSubstr;

// A call is slow from here on.
class SlowCall {
 public:
  SlowCall(FakeVerbs& api, Call call) : api_(api) { api_.stall(call); }
  ~SlowCall() { api_.go_on(); }
  SlowCall(const SlowCall&) = delete;
  SlowCall& operator=(const SlowCall&) = delete;

  // Somebody waits in it.
  bool reached() const {
    const Nanos until = monotonic_now() + 10 * tally::kSecond;
    while (api_.stalled() == 0 && monotonic_now() < until) std::this_thread::yield();
    return api_.stalled() > 0;
  }

 private:
  FakeVerbs& api_;
};

TEST_F(VerbsTransportTest, WhatIsUnderWayIsFlushedAndAnsweredOnce) {
  api_.hold();
  std::vector<Pull> pulls;
  for (std::uint64_t i = 0; i < 30; ++i) pulls.push_back({{kFirst, 1, 0, 4096}, i});
  transport_->pull(pulls);
  const Push wanted{{{kFirst, 1, 0, 64}, nullptr}, tiles_.data(), 8};
  transport_->push({&wanted, 1});
  transport_->detach(kFirst);
  std::array<Pulled, 64> pulled;
  std::array<Pushed, 64> pushed;
  EXPECT_EQ(transport_->pulled(pulled), 30U);
  EXPECT_EQ(transport_->pushed(pushed), 1U);
  EXPECT_EQ(pulled[29].status, Status::kPeerLost);
  EXPECT_EQ(pushed[0].status, Status::kPeerLost);
  api_.let_go();
  EXPECT_TRUE(notices().empty());
  EXPECT_EQ(transport_->pulled(pulled), 0U);
  expect_served(kSecond, second_);
}

// The end of a connection takes 1024 completions from the queue, and here more wait there.
TEST_F(VerbsTransportTest, MessagesOfAnEarlierConnectionAreIgnored) {
  std::vector<std::unique_ptr<Client>> others;
  for (Peer peer = 10; peer < 50; ++peer) {
    join(peer, *others.emplace_back(std::make_unique<Client>(api_, "one")));
    for (std::uint32_t i = 0; i < kCredit; ++i) others.back()->send(2);
  }
  first_.send(1);
  transport_->detach(kFirst);
  Client again(api_, "one");
  join(kFirst, again);
  std::size_t taken = 0;
  for (auto some = notices(); !some.empty(); some = notices()) {
    taken += some.size();
    for (const Received& one : some) EXPECT_NE(one.peer, kFirst);
  }
  EXPECT_EQ(taken, 40 * kCredit);
  expect_served(kFirst, again);
}

TEST_F(VerbsTransportTest, AnAttachThatFailsLeavesNothing) {
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
    EXPECT_FALSE(attach(7, third).ok()) << static_cast<int>(call) << after;
    EXPECT_EQ(api_.objects(), with_client);
  }
  join(7, third);
  EXPECT_EQ(api_.objects(), with_client + 2);
  transport_->detach(7);
  expect_served(kFirst, first_);
  EXPECT_GT(with_client, before);
}

TEST_F(VerbsTransportTest, AConnectionThatIsSlowInItsMakingHoldsUpNobody) {
  Client third(api_, "one");
  Client fourth(api_, "two");
  Client fifth(api_, "two");
  auto ready = transport_->connect(8, fourth.pair.address(), kCredit);  // before
  const SlowCall slow(api_, Call::kModify);
  std::optional<Result<Connection>> made;
  std::jthread maker([&] { made = transport_->connect(7, third.pair.address(), kCredit); });
  EXPECT_TRUE(slow.reached());
  expect_served(kFirst, first_);
  const auto address = transport_->attach(8, std::move(ready).value());
  EXPECT_TRUE(address.ok());
  transport_->detach(kSecond);
  EXPECT_EQ(transport_->attached_count(), 2U);
  api_.go_on();
  maker.join();
  ASSERT_TRUE(made->ok());
  const auto third_address = transport_->attach(7, std::move(*made).value());
  ASSERT_TRUE(third_address.ok());
  ASSERT_TRUE(third.pair.connect(*third_address).ok());
  transport_->add_region(7, 1, third.region());
  expect_served(7, third);
  expect_served(kFirst, first_);
}

TEST_F(VerbsTransportTest, ConnectionsAreMadeWhileTheShardMovesBytes) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<Client>(api_, "one"));
  std::vector<std::unique_ptr<Connection>> made(clients.size());
  std::atomic<int> makers = 2;
  const auto make = [&](std::size_t first) {
    for (std::size_t i = first; i < clients.size(); i += 2) {
      const Peer peer = 10 + static_cast<Peer>(i);
      auto connection = transport_->connect(peer, clients[i]->pair.address(), kCredit);
      if (connection) made[i] = std::make_unique<Connection>(std::move(connection).value());
    }
    --makers;
  };
  std::jthread one([&] { make(0); });
  std::jthread two([&] { make(1); });
  do {
    expect_served(kFirst, first_);
  } while (makers > 0);
  one.join();
  two.join();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const Peer peer = 10 + static_cast<Peer>(i);
    ASSERT_NE(made[i], nullptr);
    const auto address = transport_->attach(peer, std::move(*made[i]));
    ASSERT_TRUE(clients[i]->pair.connect(*address).ok());
    transport_->add_region(peer, 1, clients[i]->region());
    expect_served(peer, *clients[i]);
  }
}

TEST_F(VerbsTransportTest, AConnectionThatNobodyWantsAnyMoreLeavesNothing) {
  Client third(api_, "one");
  const std::size_t before = api_.objects();
  const std::size_t transport = before - clients_ - clients_ / 2;
  std::optional<Connection> made = transport_->connect(7, third.pair.address(), kCredit).value();
  EXPECT_GT(api_.objects(), before);
  made.reset();
  EXPECT_EQ(api_.objects(), before);
  made = transport_->connect(7, third.pair.address(), kCredit).value();
  transport_.reset();
  EXPECT_GT(api_.objects(), before - transport);
  made.reset();  // it outlives the transport
  EXPECT_EQ(api_.objects(), before - transport);
}

TEST_F(VerbsTransportTest, AnEndThatIsSlowHoldsUpNobodyAndIsOverBeforeItsMemoryIsUsedAgain) {
  api_.hold();
  const Pull wanted{{kFirst, 1, 0, 4096}, 9};
  transport_->pull({&wanted, 1});
  auto connection = transport_->part(kFirst);
  ASSERT_TRUE(connection.has_value());
  api_.let_go();
  EXPECT_FALSE(transport_->covers({kFirst, 1, 0, 1}));
  EXPECT_TRUE(lost().empty());  // whoever parts them knows
  const SlowCall slow(api_, Call::kDestroyPair);
  std::jthread ender([&] { connection.reset(); });
  EXPECT_TRUE(slow.reached());
  expect_served(kSecond, second_);
  std::array<Pulled, 4> pulled;
  EXPECT_EQ(transport_->pulled(pulled), 0U);          // its queue pair may still write there
  EXPECT_TRUE(transport_->part(kFirst).has_value());  // again: there is nothing left of it
  api_.announce(IBV_EVENT_QP_ACCESS_ERR, api_.peer_of(second_.pair.number()));
  EXPECT_EQ(lost(), std::vector<Peer>{kSecond});
  api_.go_on();
  ender.join();
  transport_->detach(kFirst);
  ASSERT_EQ(transport_->pulled(pulled), 1U);
  EXPECT_EQ(pulled[0].status, Status::kPeerLost);
  EXPECT_FALSE(transport_->part(kFirst).has_value());
}

TEST_F(VerbsTransportTest, ManySessionsHaveRoomInTheQueueOrAreRefused) {
  std::vector<std::unique_ptr<Client>> clients;
  for (Peer peer = 10; peer < 30; ++peer) {
    join(peer, *clients.emplace_back(std::make_unique<Client>(api_, "one")));
  }
  EXPECT_EQ(transport_->attached_count(), 22U);
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
    const auto address = attach(peer, *clients[peer - 10]);
    if (address.ok()) continue;
    EXPECT_GE(peer, 50U);
    EXPECT_THAT(address.error().message, HasSubstr("a completion queue of "));
    EXPECT_THAT(address.error().message, HasSubstr(memory_limit()));
    return expect_served(kFirst, first_);
  }
  FAIL() << "no session was refused";
}

TEST_F(VerbsTransportTest, WhatCannotBeOpenedLeavesNothing) {
  transport_.reset();
  EXPECT_EQ(api_.objects(), clients_);
  const std::array<std::pair<Call, int>, 6> steps = {{{Call::kOpen, 0},
                                                      {Call::kProtectionDomain, 0},
                                                      {Call::kChannel, 0},
                                                      {Call::kQueue, 0},
                                                      {Call::kRegister, 0},
                                                      {Call::kRegister, 1}}};
  for (const auto& [call, after] : steps) {
    api_.fail(call, ENOMEM, after);
    EXPECT_FALSE(VerbsTransport::open(api_, options()).ok());
    EXPECT_EQ(api_.objects(), clients_);
  }
}

}  // namespace
}  // namespace tally::transport::verbs
