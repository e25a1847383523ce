// The transport over libfabric's tcp endpoints on the loopback interface, with a client made by
// hand; and the same where the provider asks for more.
#include "dataplane/transport/fabric/fabric_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "tests/support/transport/fabric_transport_fixture.h"

namespace tally::transport::fabric {
namespace {

// The transport calls this before libfabric's first call. Other tests may call libfabric earlier.
class MessagesOneByOne : public ::testing::Environment {
  void SetUp() override { take_messages_one_by_one(); }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new MessagesOneByOne);

TEST_P(FabricTransportTest, PullsTheWorkersBytes) {
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 1000, 200'001}));
  ASSERT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(answer.user, 9u);
  ASSERT_EQ(answer.view.size(), 1u);
  ASSERT_EQ(answer.view[0].bytes, 200'001u);
  EXPECT_EQ(std::memcmp(answer.view[0].data, client_.memory.data() + 1000, 200'001), 0);
  transport_->release(answer.handle);
}

TEST_P(FabricTransportTest, PushesAreAnsweredWhenTheBytesStand) {
  const std::vector<std::byte> result(123'457, std::byte{0x5a});
  Pushed answer;
  ASSERT_TRUE(push(answer, {kPeer, 1, 77, result.size()}, result.data()));
  EXPECT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(std::memcmp(client_.memory.data() + 77, result.data(), result.size()), 0);
  EXPECT_EQ(client_.memory[76], std::byte{76});
  EXPECT_EQ(client_.memory[77 + result.size()], std::byte((77 + result.size()) % 256));
}

TEST_P(FabricTransportTest, NoticesInCompletionsOut) {
  RingEntry notice{}, completion{};
  notice.bytes[5] = std::byte{1};
  completion.bytes[9] = std::byte{2};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret); }));
  ASSERT_TRUE(until([&] { return notices_.size() == 1; }));
  EXPECT_EQ(notices_[0].peer, kPeer);
  EXPECT_EQ(std::memcmp(notices_[0].message.bytes, notice.bytes, sizeof notice.bytes), 0);
  const Message message{kPeer, completion};
  transport_->complete({&message, 1});
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
  ASSERT_EQ(client_.messages[0].size(), kMessageBytes);
  EXPECT_EQ(std::memcmp(client_.messages[0].data() + sizeof(Envelope), completion.bytes, 64), 0);
}

// They are all that keeps strangers out of a worker's memory.
// An endpoint can be reached by anybody.
TEST_P(FabricTransportTest, DropsMessagesWithoutTheSecretOrForAnotherShard) {
  RingEntry notice{};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret + 1); }));
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret, 1); }));
  notice.bytes[0] = std::byte{7};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret); }));
  ASSERT_TRUE(until([&] { return !notices_.empty(); }));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_EQ(notices_[0].message.bytes[0], std::byte{7});
}

// ofi_rxm does not say what becomes of the receive.
TEST_P(FabricTransportTest, AStrangersMessagesThatAreTooLongAreDropped) {
  const bool dropped = GetParam() != Provider::kLayered;
  const std::vector<std::byte> too_long(kLongestMessage + 4 * kMessageBytes);
  const auto served = [&] { return transport_->why_lost(kPeer).empty(); };
  ASSERT_TRUE(until([&] { return client_.send(RingEntry{}, kSecret); }));
  for (std::size_t i = 1; i <= 3 && served(); ++i) {
    ASSERT_TRUE(until([&] { return notices_.size() == i; }));
    Client stranger(20'000, options_);
    stranger.know(node_name_);
    ASSERT_TRUE(
        until([&] { return stranger.progress(), stranger.send(RingEntry{}, kSecret + 1); }));
    ASSERT_TRUE(stranger.send(wire::Notice{}, too_long));
    // It stands in the connection before the next notice is sent.
    const Nanos end = monotonic_now() + kTimeout;
    while (stranger.sent == 0 && monotonic_now() < end) stranger.progress();
    ASSERT_EQ(stranger.sent, 1u);
    ASSERT_TRUE(client_.send(RingEntry{}, kSecret));
    ASSERT_TRUE(until([&] { return notices_.size() > i || !served(); }));
  }
  EXPECT_EQ(served(), dropped) << transport_->why_lost(kPeer);
}

TEST_P(FabricTransportTest, APeerThatSendsTooLongMessagesIsNotWaitedFor) {
  ASSERT_TRUE(until([&] { return client_.send(RingEntry{}, kSecret); }));
  ASSERT_TRUE(client_.send(wire::Notice{}, std::vector<std::byte>(12'000)));
  const Pull one{{kPeer, 1, 0, 1000}, 9};
  transport_->pull({&one, 1});
  Pulled answer;
  std::array<Peer, 4> lost{};
  EXPECT_TRUE(until([&] {
    return transport_->pulled({&answer, 1}) == 1 || transport_->lost(lost) == 1;
  }));
}

TEST_P(FabricTransportTest, MorePullsThanLandingMemoryWaitTheirTurn) {
  constexpr std::size_t kPulls = 40, kBytes = 100'000;
  std::vector<Pull> pulls;
  for (std::size_t i = 0; i < kPulls; ++i) pulls.push_back({{kPeer, 1, i * 100, kBytes}, i});
  transport_->pull(pulls);
  std::size_t answered = 0;
  ASSERT_TRUE(until([&] {
    Pulled answer;
    while (transport_->pulled({&answer, 1}) == 1) {
      EXPECT_EQ(answer.status, Status::kOk);
      EXPECT_EQ(answer.view[0].data[0], client_.memory[answer.user * 100]);
      transport_->release(answer.handle);
      ++answered;
    }
    return answered == kPulls;
  }));
}

TEST_P(FabricTransportTest, AFloodOfNoticesEndsTheSession) {
  const RingEntry notice{};
  std::array<Peer, 4> lost{};
  const Nanos end = monotonic_now() + kTimeout;
  std::array<Received, 1> few;
  while (transport_->lost(lost) == 0 && monotonic_now() < end) {
    for (int i = 0; i < 64; ++i) client_.send(notice, kSecret);
    client_.progress();
    transport_->receive(few);  // the shard takes less than comes
  }
  EXPECT_EQ(lost[0], kPeer);
  EXPECT_EQ(transport_->why_lost(kPeer), "it sends more than its credit");
  transport_->detach(kPeer);
  std::array<Received, 64> after;
  EXPECT_EQ(transport_->receive(after), 0u);
}

// The provider takes what its buffers hold; the rest waits, and not without end.
TEST_P(FabricTransportTest, APeerThatTakesNoCompletionsIsLostAlone) {
  Client second(1000, options_);
  auto name = transport_->attach(5, {.job = 1, .name = second.name(), .secret = 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  const std::vector<Message> burst(256, Message{kPeer, RingEntry{}});
  std::array<Peer, 4> lost{};
  std::array<Received, 1> none;
  const Nanos end = monotonic_now() + kTimeout;
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));  // it is connected
  transport_->release(answer.handle);
  while (transport_->lost(lost) == 0 && monotonic_now() < end) {
    transport_->complete(burst);
    transport_->receive(none);
  }
  EXPECT_EQ(lost[0], kPeer);
  EXPECT_EQ(transport_->why_lost(kPeer), "it does not take its completions");
  transport_->detach(kPeer);
  const Message message{5, RingEntry{}};
  transport_->complete({&message, 1});
  EXPECT_TRUE(until([&] {
    second.progress();
    return second.messages.size() == 1;
  }));
}

TEST_P(FabricTransportTest, AddressesThatAreNoneAreRefused) {
  Name short_name = client_.name(), other_family = client_.name();
  short_name.resize(short_name.size() - 1);
  other_family[0] = std::byte{99};
  for (const Name& wrong : {Name{}, Name(1), Name(500), short_name, other_family}) {
    EXPECT_EQ(transport_->attach(9, {1, wrong, 1}).status(), Status::kInvalidArgument)
        << wrong.size();
    EXPECT_EQ(transport_->attach(9, {7, wrong, 1}).status(), Status::kInvalidArgument)
        << wrong.size();
  }
  EXPECT_EQ(transport_->attached_count(), 1u);
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  EXPECT_EQ(answer.status, Status::kOk);
  transport_->release(answer.handle);
}

TEST_P(FabricTransportTest, WhatIsOutsideIsNotCovered) {
  EXPECT_TRUE(transport_->covers({kPeer, 1, 0, 300'000}));
  EXPECT_FALSE(transport_->covers({kPeer, 1, 1, 300'000}));
  EXPECT_FALSE(transport_->covers({kPeer, 1, UINT64_MAX, 2}));
  EXPECT_FALSE(transport_->covers({kPeer, 0, 0, 1}));
  EXPECT_FALSE(transport_->covers({kPeer, 2, 0, 1}));
  EXPECT_FALSE(transport_->covers({kPeer + 1, 1, 0, 1}));
  transport_->remove_region(kPeer, 1);
  EXPECT_FALSE(transport_->covers({kPeer, 1, 0, 1}));
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  EXPECT_EQ(answer.status, Status::kBadRegion);
}

// A client finds out whether a provider works, and sleeps on what it then has.
TEST_P(FabricTransportTest, OneEndpointCanSleep) {
  auto domain = Domain::open(options_).value();
  const auto endpoint = domain->endpoint();
  ASSERT_TRUE(endpoint.ok());
  fi_cq_data_entry entry{};
  EXPECT_EQ(::fi_cq_read(&domain->completions(), &entry, 1), -FI_EAGAIN);
  const Nanos end = monotonic_now() + kTimeout;
  while (!domain->may_sleep() && monotonic_now() < end) {
    ::fi_cq_read(&domain->completions(), &entry, 1);
  }
  EXPECT_LT(monotonic_now(), end);
}

// The client's fence: without its key nothing can be read or written, and the node hears of it.
TEST_P(FabricTransportTest, AWithdrawnRegionIsAnError) {
  client_.withdraw();
  Pulled answer;
  const Pull one{{kPeer, 1, 0, 1000}, 9};
  transport_->pull({&one, 1});
  std::array<Peer, 4> lost{};
  ASSERT_TRUE(until([&] { return transport_->lost(lost) == 1; }));
  EXPECT_EQ(lost[0], kPeer);
  transport_->detach(kPeer);
  ASSERT_EQ(transport_->pulled({&answer, 1}), 1u);
  EXPECT_EQ(answer.status, Status::kPeerLost);
}

TEST_P(FabricTransportTest, DetachAnswersWhatIsOutstanding) {
  client_.vanish();
  std::vector<Pull> pulls(30, Pull{{kPeer, 1, 0, 100'000}, 5});
  transport_->pull(pulls);
  const std::vector<std::byte> source(1000);
  const Push push{{{kPeer, 1, 0, 1000}, nullptr}, source.data(), 6};
  transport_->push({&push, 1});
  transport_->detach(kPeer);
  std::array<Pulled, 64> pulled;
  std::array<Pushed, 4> pushed;
  EXPECT_EQ(transport_->pulled(pulled), 30u);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(pulled[i].status, Status::kPeerLost);
  ASSERT_EQ(transport_->pushed(pushed), 1u);
  EXPECT_EQ(pushed[0].status, Status::kPeerLost);
  EXPECT_EQ(transport_->attached_count(), 0u);
}

TEST_P(FabricTransportTest, AnotherPeerIsServedOnWhenOneIsGone) {
  Client second(1000, options_);
  auto name = transport_->attach(5, {2, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  transport_->add_region(5, 1, second.region());
  client_.vanish();
  transport_->detach(kPeer);
  second.memory[10] = std::byte{42};
  const Pull pull{{5, 1, 10, 1}, 1};
  transport_->pull({&pull, 1});
  Pulled answer;
  ASSERT_TRUE(until([&] {
    second.progress();
    return transport_->pulled({&answer, 1}) == 1;
  }));
  ASSERT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(answer.view[0].data[0], std::byte{42});
  transport_->release(answer.handle);
}

// More of several peers of a job, at once, than receives are posted.
TEST_P(FabricTransportTest, NoticesThatComeInBurstsAreAllTaken) {
  constexpr int kBurst = 40, kBursts = 50;
  Client second(1000, options_);
  auto name = transport_->attach(5, {.job = 1, .name = second.name(), .secret = kSecret});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  // Until they are connected they can send nothing.
  ASSERT_TRUE(until([&] { return client_.send(RingEntry{}, kSecret); }));
  ASSERT_TRUE(until([&] { return second.progress(), second.send(RingEntry{}, kSecret); }));
  std::size_t sent = 2;
  const auto all_there = [&] {
    second.progress();
    return notices_.size() == sent;
  };
  for (int burst = 0; burst < kBursts; ++burst) {
    ASSERT_TRUE(until(all_there)) << notices_.size() << " of " << sent;
    for (int i = 0; i < kBurst; ++i) {
      sent += client_.send(RingEntry{}, kSecret) ? 1 : 0;
      sent += second.send(RingEntry{}, kSecret) ? 1 : 0;
    }
  }
  ASSERT_TRUE(until(all_there)) << notices_.size() << " of " << sent;
}

// What a provider waits for on behalf of a session goes with it.
TEST_P(FabricTransportTest, TheOthersOfAJobSleepWhenOneIsGone) {
  Client second(1000, options_);
  auto name = transport_->attach(5, {1, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  transport_->release(answer.handle);
  transport_->detach(kPeer);
  const Nanos end = monotonic_now() + kTimeout;
  while (!transport_->arm() && monotonic_now() < end) until([] { return true; });
  EXPECT_TRUE(transport_->arm());
}

INSTANTIATE_TEST_SUITE_P(, FabricTransportTest,
                         ::testing::Values(Provider::kAsItIs, Provider::kLayered, Provider::kPicky),
                         [](const auto& provider) {
                           return kNames[static_cast<std::size_t>(provider.param)];
                         });

class StrangersFabricTransportTest : public FabricTransportTest {};

// Writes over memory that has been freed, so that its use is noticed.
std::vector<std::vector<unsigned char>> fill_freed_memory() {
  std::vector<std::vector<unsigned char>> filled;
  for (std::size_t bytes = 16; bytes <= 1024; bytes += 16) {
    for (int i = 0; i < 16; ++i) filled.emplace_back(bytes, 0xa5);
  }
  return filled;
}

// libfabric's record of a connection that has said nothing yet outlives the endpoint.
TEST_P(StrangersFabricTransportTest, AStrangersSilentConnectionEndsWithItsSession) {
  Client second(1000, options_);
  const auto name = transport_->attach(5, {.job = 1, .name = second.name(), .secret = kSecret});
  ASSERT_TRUE(name.ok());
  const UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(name->data());
  ASSERT_EQ(::connect(stranger.get(), address, sizeof(sockaddr_in)), 0) << std::strerror(errno);
  int turns = 0;
  const auto some_turns = [&] { return ++turns % 2000 == 0; };
  ASSERT_TRUE(until(some_turns));  // the transport accepts it
  transport_->detach(5);
  const auto filled = fill_freed_memory();
  ::shutdown(stranger.get(), SHUT_RDWR);
  ASSERT_TRUE(until(some_turns));
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  EXPECT_EQ(answer.status, Status::kOk);
  transport_->release(answer.handle);
}

INSTANTIATE_TEST_SUITE_P(, StrangersFabricTransportTest,
                         ::testing::Values(Provider::kAsItIs, Provider::kLayered),
                         [](const auto& provider) {
                           return kNames[static_cast<std::size_t>(provider.param)];
                         });

class PickyFabricTransportTest : public FabricTransportTest {};

// Tiles are registered; what is not is copied.
TEST_P(PickyFabricTransportTest, PushesFromTilesAreNotCopied) {
  std::fill(tiles_.begin(), tiles_.end(), std::byte{7});
  const std::vector<std::byte> elsewhere(5'000, std::byte{9});
  Pushed answer;
  ASSERT_TRUE(push(answer, {kPeer, 1, 10, 1'000}, tiles_.data() + 500));
  EXPECT_EQ(answer.status, Status::kOk);
  ASSERT_TRUE(push(answer, {kPeer, 1, 2'000, elsewhere.size()}, elsewhere.data()));
  EXPECT_EQ(answer.status, Status::kOk);
  EXPECT_TRUE(picky::used(tiles_.data() + 500));
  EXPECT_FALSE(picky::used(elsewhere.data()));
  EXPECT_EQ(client_.memory[10 + 999], std::byte{7});
  EXPECT_EQ(client_.memory[2'000 + 4'999], std::byte{9});
}

// More than there is room for: the copies wait their turn, and their room is given back.
TEST_P(PickyFabricTransportTest, CopiesWaitForRoom) {
  const std::vector<std::byte> elsewhere(kLanding / 4, std::byte{9});
  const std::vector<Push> pushes(9,
                                 {{{kPeer, 1, 0, elsewhere.size()}, nullptr}, elsewhere.data(), 8});
  transport_->push(pushes);
  std::size_t answered = 0;
  ASSERT_TRUE(until([&] {
    Pushed answer;
    while (transport_->pushed({&answer, 1}) == 1) answered += answer.status == Status::kOk ? 1 : 0;
    return answered == pushes.size();
  }));
}

TEST_P(PickyFabricTransportTest, JobsShareWhatIsRegistered) {
  Client second(1000, options_);
  auto name = transport_->attach(5, {2, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  transport_->add_region(5, 1, second.region());
  EXPECT_EQ(picky::registered(tiles_.data()), 1u);
  transport_->detach(kPeer);
  const Push one{{{5, 1, 0, 100}, nullptr}, tiles_.data(), 8};
  transport_->push({&one, 1});
  Pushed answer;
  ASSERT_TRUE(until([&] {
    second.progress();
    return transport_->pushed({&answer, 1}) == 1;
  }));
  EXPECT_EQ(answer.status, Status::kOk);
}

// The shard sleeps on the transport's descriptor.
TEST_P(PickyFabricTransportTest, WithoutADescriptorSleepsAreShort) {
  for (int i = 0; i < 3; ++i) {
    while (!transport_->arm()) client_.progress();
    pollfd transport{transport_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&transport, 1, 1000), 1) << "nobody looks whether something has come";
  }
}

INSTANTIATE_TEST_SUITE_P(, PickyFabricTransportTest, ::testing::Values(Provider::kPicky));

}  // namespace
}  // namespace tally::transport::fabric
