// The port over libfabric's tcp endpoints on the loopback interface, with a client made by hand;
// and the same where the provider asks for more.
#include "dataplane/transport/fabric/port.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>

#include "dataplane/transport/fabric/port_fixture.h"

namespace tally::transport::fabric {
namespace {

// Before libfabric's first call of all: in a program of its own that is the port's.
class AsAPortDoes : public ::testing::Environment {
  void SetUp() override { take_messages_one_by_one(); }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new AsAPortDoes);

TEST_P(FabricPort, PullsTheWorkersBytes) {
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 1000, 200'001}));
  ASSERT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(answer.user, 9u);
  ASSERT_EQ(answer.view.size(), 1u);
  ASSERT_EQ(answer.view[0].bytes, 200'001u);
  EXPECT_EQ(std::memcmp(answer.view[0].data, client_.memory.data() + 1000, 200'001), 0);
  port_->release(answer.handle);
}

TEST_P(FabricPort, PushesAreAnsweredWhenTheBytesStand) {
  const std::vector<std::byte> result(123'457, std::byte{0x5a});
  Pushed answer;
  ASSERT_TRUE(push(answer, {kPeer, 1, 77, result.size()}, result.data()));
  EXPECT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(std::memcmp(client_.memory.data() + 77, result.data(), result.size()), 0);
  EXPECT_EQ(client_.memory[76], std::byte{76});
  EXPECT_EQ(client_.memory[77 + result.size()], std::byte((77 + result.size()) % 256));
}

TEST_P(FabricPort, NoticesInCompletionsOut) {
  RingSlot notice{}, completion{};
  notice.bytes[5] = std::byte{1};
  completion.bytes[9] = std::byte{2};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret); }));
  ASSERT_TRUE(until([&] { return notices_.size() == 1; }));
  EXPECT_EQ(notices_[0].peer, kPeer);
  EXPECT_EQ(std::memcmp(notices_[0].message.bytes, notice.bytes, sizeof notice.bytes), 0);
  const Message message{kPeer, completion};
  port_->complete({&message, 1});
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
  ASSERT_EQ(client_.messages[0].size(), kMessageBytes);
  EXPECT_EQ(std::memcmp(client_.messages[0].data() + sizeof(Envelope), completion.bytes, 64), 0);
}

// An endpoint can be reached by anybody.
TEST_P(FabricPort, MessagesWithoutTheSecretAreDropped) {
  RingSlot notice{};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret + 1); }));
  notice.bytes[0] = std::byte{7};
  ASSERT_TRUE(until([&] { return client_.send(notice, kSecret); }));
  ASSERT_TRUE(until([&] { return !notices_.empty(); }));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_EQ(notices_[0].message.bytes[0], std::byte{7});
}

// ofi_rxm does not say what becomes of the receive.
TEST_P(FabricPort, AStrangersMessagesThatAreTooLongAreDropped) {
  const bool dropped = GetParam() != Provider::kLayered;
  const std::vector<std::byte> too_long(kLongestMessage + 4 * kMessageBytes);
  const auto served = [&] { return port_->why_lost(kPeer).empty(); };
  ASSERT_TRUE(until([&] { return client_.send(RingSlot{}, kSecret); }));
  for (std::size_t i = 1; i <= 3 && served(); ++i) {
    ASSERT_TRUE(until([&] { return notices_.size() == i; }));
    Client stranger(20'000, options_);
    stranger.know(node_name_);
    ASSERT_TRUE(until([&] { return stranger.progress(), stranger.send(RingSlot{}, kSecret + 1); }));
    ASSERT_TRUE(stranger.send(wire::Notice{}, too_long));
    // It stands in the connection before the next notice is sent.
    const Nanos end = monotonic_now() + kPatience;
    while (stranger.sent == 0 && monotonic_now() < end) stranger.progress();
    ASSERT_EQ(stranger.sent, 1u);
    ASSERT_TRUE(client_.send(RingSlot{}, kSecret));
    ASSERT_TRUE(until([&] { return notices_.size() > i || !served(); }));
  }
  EXPECT_EQ(served(), dropped) << port_->why_lost(kPeer);
}

TEST_P(FabricPort, APeerThatSendsTooLongMessagesIsNotWaitedFor) {
  ASSERT_TRUE(until([&] { return client_.send(RingSlot{}, kSecret); }));
  ASSERT_TRUE(client_.send(wire::Notice{}, std::vector<std::byte>(12'000)));
  const Pull one{{kPeer, 1, 0, 1000}, 9};
  port_->pull({&one, 1});
  Pulled answer;
  std::array<Peer, 4> lost{};
  EXPECT_TRUE(until([&] { return port_->pulled({&answer, 1}) == 1 || port_->lost(lost) == 1; }));
}

TEST_P(FabricPort, MorePullsThanLandingMemoryWaitTheirTurn) {
  constexpr std::size_t kPulls = 40, kBytes = 100'000;
  std::vector<Pull> pulls;
  for (std::size_t i = 0; i < kPulls; ++i) pulls.push_back({{kPeer, 1, i * 100, kBytes}, i});
  port_->pull(pulls);
  std::size_t answered = 0;
  ASSERT_TRUE(until([&] {
    Pulled answer;
    while (port_->pulled({&answer, 1}) == 1) {
      EXPECT_EQ(answer.status, Status::kOk);
      EXPECT_EQ(answer.view[0].data[0], client_.memory[answer.user * 100]);
      port_->release(answer.handle);
      ++answered;
    }
    return answered == kPulls;
  }));
}

TEST_P(FabricPort, AFloodOfNoticesEndsTheSession) {
  const RingSlot notice{};
  std::array<Peer, 4> lost{};
  const Nanos end = monotonic_now() + kPatience;
  std::array<Received, 1> few;
  while (port_->lost(lost) == 0 && monotonic_now() < end) {
    for (int i = 0; i < 64; ++i) client_.send(notice, kSecret);
    client_.progress();
    port_->receive(few);  // the shard takes less than comes
  }
  EXPECT_EQ(lost[0], kPeer);
  EXPECT_EQ(port_->why_lost(kPeer), "it sends more than its credit");
  port_->detach(kPeer);
  std::array<Received, 64> after;
  EXPECT_EQ(port_->receive(after), 0u);
}

// The provider takes what its buffers hold; the rest waits, and not without end.
TEST_P(FabricPort, APeerThatTakesNoCompletionsIsLostAlone) {
  Client second(1000, options_);
  auto name = port_->attach(5, {.job = 1, .name = second.name(), .secret = 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  const std::vector<Message> burst(256, Message{kPeer, RingSlot{}});
  std::array<Peer, 4> lost{};
  std::array<Received, 1> none;
  const Nanos end = monotonic_now() + kPatience;
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));  // it is connected
  port_->release(answer.handle);
  while (port_->lost(lost) == 0 && monotonic_now() < end) {
    port_->complete(burst);
    port_->receive(none);
  }
  EXPECT_EQ(lost[0], kPeer);
  EXPECT_EQ(port_->why_lost(kPeer), "it does not take its completions");
  port_->detach(kPeer);
  const Message message{5, RingSlot{}};
  port_->complete({&message, 1});
  EXPECT_TRUE(until([&] {
    second.progress();
    return second.messages.size() == 1;
  }));
}

TEST_P(FabricPort, AddressesThatAreNoneAreRefused) {
  Name short_name = client_.name(), other_family = client_.name();
  short_name.resize(short_name.size() - 1);
  other_family[0] = std::byte{99};
  for (const Name& wrong : {Name{}, Name(1), Name(500), short_name, other_family}) {
    EXPECT_EQ(port_->attach(9, {1, wrong, 1}).status(), Status::kInvalidArgument) << wrong.size();
    EXPECT_EQ(port_->attach(9, {7, wrong, 1}).status(), Status::kInvalidArgument) << wrong.size();
  }
  EXPECT_EQ(port_->sessions(), 1u);
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  EXPECT_EQ(answer.status, Status::kOk);
  port_->release(answer.handle);
}

TEST_P(FabricPort, WhatIsOutsideIsNotCovered) {
  EXPECT_TRUE(port_->covers({kPeer, 1, 0, 300'000}));
  EXPECT_FALSE(port_->covers({kPeer, 1, 1, 300'000}));
  EXPECT_FALSE(port_->covers({kPeer, 1, UINT64_MAX, 2}));
  EXPECT_FALSE(port_->covers({kPeer, 0, 0, 1}));
  EXPECT_FALSE(port_->covers({kPeer, 2, 0, 1}));
  EXPECT_FALSE(port_->covers({kPeer + 1, 1, 0, 1}));
  port_->remove_region(kPeer, 1);
  EXPECT_FALSE(port_->covers({kPeer, 1, 0, 1}));
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  EXPECT_EQ(answer.status, Status::kBadRegion);
}

// A client finds out whether a provider works, and sleeps on what it then has.
TEST_P(FabricPort, OneEndpointCanSleep) {
  auto domain = Domain::open(options_).value();
  const auto endpoint = domain->endpoint();
  ASSERT_TRUE(endpoint.ok());
  fi_cq_data_entry entry{};
  EXPECT_EQ(::fi_cq_read(&domain->completions(), &entry, 1), -FI_EAGAIN);
  const Nanos end = monotonic_now() + kPatience;
  while (!domain->may_sleep() && monotonic_now() < end) {
    ::fi_cq_read(&domain->completions(), &entry, 1);
  }
  EXPECT_LT(monotonic_now(), end);
}

// The client's fence: without its key nothing can be read or written, and the node hears of it.
TEST_P(FabricPort, AWithdrawnRegionIsAnError) {
  client_.withdraw();
  Pulled answer;
  const Pull one{{kPeer, 1, 0, 1000}, 9};
  port_->pull({&one, 1});
  std::array<Peer, 4> lost{};
  ASSERT_TRUE(until([&] { return port_->lost(lost) == 1; }));
  EXPECT_EQ(lost[0], kPeer);
  port_->detach(kPeer);
  ASSERT_EQ(port_->pulled({&answer, 1}), 1u);
  EXPECT_EQ(answer.status, Status::kPeerLost);
}

TEST_P(FabricPort, DetachAnswersWhatIsOutstanding) {
  client_.vanish();
  std::vector<Pull> pulls(30, Pull{{kPeer, 1, 0, 100'000}, 5});
  port_->pull(pulls);
  const std::vector<std::byte> source(1000);
  const Push push{{{kPeer, 1, 0, 1000}, nullptr}, source.data(), 6};
  port_->push({&push, 1});
  port_->detach(kPeer);
  std::array<Pulled, 64> pulled;
  std::array<Pushed, 4> pushed;
  EXPECT_EQ(port_->pulled(pulled), 30u);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(pulled[i].status, Status::kPeerLost);
  ASSERT_EQ(port_->pushed(pushed), 1u);
  EXPECT_EQ(pushed[0].status, Status::kPeerLost);
  EXPECT_EQ(port_->sessions(), 0u);
}

TEST_P(FabricPort, AnotherPeerIsServedOnWhenOneIsGone) {
  Client second(1000, options_);
  auto name = port_->attach(5, {2, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  port_->add_region(5, 1, second.region());
  client_.vanish();
  port_->detach(kPeer);
  second.memory[10] = std::byte{42};
  const Pull pull{{5, 1, 10, 1}, 1};
  port_->pull({&pull, 1});
  Pulled answer;
  ASSERT_TRUE(until([&] {
    second.progress();
    return port_->pulled({&answer, 1}) == 1;
  }));
  ASSERT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(answer.view[0].data[0], std::byte{42});
  port_->release(answer.handle);
}

// More of several peers of a job, at once, than receives are posted.
TEST_P(FabricPort, NoticesThatComeInBurstsAreAllTaken) {
  constexpr int kBurst = 40, kBursts = 50;
  Client second(1000, options_);
  auto name = port_->attach(5, {.job = 1, .name = second.name(), .secret = kSecret});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  // Until they are connected they can send nothing.
  ASSERT_TRUE(until([&] { return client_.send(RingSlot{}, kSecret); }));
  ASSERT_TRUE(until([&] { return second.progress(), second.send(RingSlot{}, kSecret); }));
  std::size_t sent = 2;
  const auto all_there = [&] {
    second.progress();
    return notices_.size() == sent;
  };
  for (int burst = 0; burst < kBursts; ++burst) {
    ASSERT_TRUE(until(all_there)) << notices_.size() << " of " << sent;
    for (int i = 0; i < kBurst; ++i) {
      sent += client_.send(RingSlot{}, kSecret) ? 1 : 0;
      sent += second.send(RingSlot{}, kSecret) ? 1 : 0;
    }
  }
  ASSERT_TRUE(until(all_there)) << notices_.size() << " of " << sent;
}

// What a provider waits for on behalf of a session goes with it.
TEST_P(FabricPort, TheOthersOfAJobSleepWhenOneIsGone) {
  Client second(1000, options_);
  auto name = port_->attach(5, {1, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 10}));
  port_->release(answer.handle);
  port_->detach(kPeer);
  const Nanos end = monotonic_now() + kPatience;
  while (!port_->arm() && monotonic_now() < end) until([] { return true; });
  EXPECT_TRUE(port_->arm());
}

INSTANTIATE_TEST_SUITE_P(, FabricPort,
                         ::testing::Values(Provider::kAsItIs, Provider::kLayered, Provider::kPicky),
                         [](const auto& provider) {
                           return kNames[static_cast<std::size_t>(provider.param)];
                         });

class PickyFabricPort : public FabricPort {};

// Tiles are registered; what is not is copied.
TEST_P(PickyFabricPort, PushesFromTilesAreNotCopied) {
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
TEST_P(PickyFabricPort, CopiesWaitForRoom) {
  const std::vector<std::byte> elsewhere(kLanding / 4, std::byte{9});
  const std::vector<Push> pushes(9,
                                 {{{kPeer, 1, 0, elsewhere.size()}, nullptr}, elsewhere.data(), 8});
  port_->push(pushes);
  std::size_t answered = 0;
  ASSERT_TRUE(until([&] {
    Pushed answer;
    while (port_->pushed({&answer, 1}) == 1) answered += answer.status == Status::kOk ? 1 : 0;
    return answered == pushes.size();
  }));
}

TEST_P(PickyFabricPort, JobsShareWhatIsRegistered) {
  Client second(1000, options_);
  auto name = port_->attach(5, {2, second.name(), 2});
  ASSERT_TRUE(name.ok());
  second.know(*name);
  port_->add_region(5, 1, second.region());
  EXPECT_EQ(picky::registered(tiles_.data()), 1u);
  port_->detach(kPeer);
  const Push one{{{5, 1, 0, 100}, nullptr}, tiles_.data(), 8};
  port_->push({&one, 1});
  Pushed answer;
  ASSERT_TRUE(until([&] {
    second.progress();
    return port_->pushed({&answer, 1}) == 1;
  }));
  EXPECT_EQ(answer.status, Status::kOk);
}

// The shard sleeps on the port's descriptor.
TEST_P(PickyFabricPort, WithoutADescriptorSleepsAreShort) {
  for (int i = 0; i < 3; ++i) {
    while (!port_->arm()) client_.progress();
    pollfd port{port_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&port, 1, 1000), 1) << "nobody looks whether something has come";
  }
}

INSTANTIATE_TEST_SUITE_P(, PickyFabricPort, ::testing::Values(Provider::kPicky));

TEST(FabricDomain, SaysWhatItCannotUse) {
  const auto nowhere = Domain::open({.address = "203.0.113.7"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("203.0.113.7"), std::string::npos);
  const auto sockets = Domain::open({.address = kHost, .provider = "sockets"});
  ASSERT_FALSE(sockets.ok());
  EXPECT_NE(sockets.error().message.find("sockets"), std::string::npos);
}

TEST(FabricDomain, SaysWhyItIsThisProvider) {
  const auto best = Domain::open({.address = kHost});
  ASSERT_TRUE(best.ok()) << best.error().message;
  EXPECT_EQ((*best)->why().find("verbs"), std::string::npos) << "nobody asked for that";
  const auto named = Domain::open({.address = kHost, .provider = "tcp;ofi_rxm"});
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ((*named)->provider(), "tcp;ofi_rxm");
  EXPECT_EQ((*named)->why(), "as configured");
  // Where no device has the address it is said, and the next one is taken.
  const auto with_verbs = Domain::open({.address = kHost, .verbs = true});
  ASSERT_TRUE(with_verbs.ok()) << with_verbs.error().message;
  if ((*with_verbs)->provider() == "verbs;ofi_rxm") GTEST_SKIP() << "there is one";
  EXPECT_NE((*with_verbs)->why().find("not verbs;ofi_rxm: "), std::string::npos);
}

TEST(FabricDomain, SaysWhetherAReceiveThatFailedIsUsedUp) {
  fi_cq_err_entry error{};
  error.flags = FI_RECV | FI_MULTI_RECV;
  for (const int why : std::array<int, 3>{FI_ETRUNC, FI_ENOTCONN, FI_ECANCELED}) {
    error.err = why;
    EXPECT_EQ(used_up(error), std::optional(true)) << why;
  }
  error.flags = FI_RECV;
  EXPECT_EQ(used_up(error), std::optional(false)) << "a connection broke; the rest is still posted";
  error.err = FI_ETRUNC;
  EXPECT_EQ(used_up(error), std::nullopt);
}

// Loading libfabric leaves the program's own handlers alone.
TEST(FabricLibrary, SignalsStayTheProgramsOwn) {
  constexpr std::array kSignals = {SIGTERM, SIGINT, SIGBUS, SIGSEGV, SIGABRT};
  const auto handlers = [&] {
    std::array<sighandler_t, kSignals.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      struct sigaction now {};
      ::sigaction(kSignals[i], nullptr, &now);
      all[i] = now.sa_handler;
    }
    return all;
  };
  const auto before = handlers();
  ASSERT_TRUE(Domain::open({.address = kHost}).ok());
  EXPECT_EQ(handlers(), before);
}

TEST(FabricNames, AsHexadecimalDigits) {
  const Name name{std::byte{0x00}, std::byte{0xab}, std::byte{0x0f}};
  EXPECT_EQ(to_hex(name), "00ab0f");
  EXPECT_EQ(from_hex("00ab0f"), name);
  for (const char* wrong : {"", "0", "0g", "0x12", "ab 1"}) EXPECT_FALSE(from_hex(wrong)) << wrong;
  EXPECT_FALSE(from_hex(std::string(1000, 'a')));
}

}  // namespace
}  // namespace tally::transport::fabric
