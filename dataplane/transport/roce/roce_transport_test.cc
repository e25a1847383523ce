#include "dataplane/transport/roce/roce_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <thread>

#include "tests/support/roce/soft_worker.h"

namespace tally::transport::roce {
namespace {

using tally::testing::FakeLink;
using tally::testing::OnTheWire;
using tally::testing::SoftWorker;
using ::testing::HasSubstr;

constexpr Peer kPeer = 3;
constexpr std::uint32_t kRegion = 5;
constexpr std::size_t kBytes = 1 << 16;
constexpr IpAddress kNode = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1};
constexpr IpAddress kWorker = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 2};

class RoceTransportTest : public ::testing::Test {
 public:
  // mtu: bytes of payload in a full packet.
  explicit RoceTransportTest(std::uint32_t mtu = 1024)
      : tiles(kBytes), worker(kWorker, kBytes, mtu) {
    TransportOptions options;
    options.address = kNode;
    options.landing_bytes = 1 << 20;
    options.tiles = tiles;
    options.ack_timeout = 20 * kMillisecond;
    auto made = std::make_unique<FakeLink>();
    link = made.get();
    transport.emplace(std::move(made), options);
    for (std::size_t i = 0; i < kBytes; ++i) {
      worker.region[i] = static_cast<std::byte>(i * 7 + i / 256);
      tiles[i] = static_cast<std::byte>(i * 3 + i / 100);
    }
    attach();
  }
  void attach() {
    const auto address = transport->attach(kPeer, worker.address(), 8);
    ASSERT_TRUE(address) << address.error().message;
    worker.connect(*address);
    transport->add_region(kPeer, kRegion, {SoftWorker::kAddress, kBytes, SoftWorker::kKey});
  }
  void attach_without_route() {
    transport->detach(kPeer);
    link->knows_routes = false;
    attach();
  }
  // Carries packets until `done`, for at most some seconds.
  void run_until(const std::function<bool()>& done) {
    const Nanos end = monotonic_now() + 20 * kSecond;
    for (; !done() && monotonic_now() < end; ++turns) {
      collect();
      for (; !link->from_node.empty(); link->from_node.pop_front()) {
        if (!loses(link->from_node.front()))
          worker.receive(link->from_node.front(), monotonic_now());
      }
      for (OnTheWire& one : worker.poll(monotonic_now())) {
        if (!loses(one)) link->to_node.push_back(std::move(one));
      }
    }
    EXPECT_TRUE(done()) << "not in time";
  }
  void collect() {
    Received notice;
    while (transport->receive({&notice, 1}) == 1) notices.push_back(notice);
    Pulled got;
    while (transport->pulled({&got, 1}) == 1) pulled.push_back(got);
    Pushed placed;
    while (transport->pushed({&placed, 1}) == 1) pushed.push_back(placed);
    Peer gone = 0;
    while (transport->lost({&gone, 1}) == 1) lost.push_back(gone);
  }
  void pull(std::uint64_t offset, std::uint64_t bytes) {
    const Pull one{{kPeer, kRegion, offset, bytes}, offset};
    transport->pull({&one, 1});
  }
  void push(std::uint64_t offset, std::uint64_t bytes, std::uint64_t of_operation = 0) {
    const Push one{
        {{kPeer, kRegion, offset, bytes}, nullptr, of_operation, 1}, tiles.data() + offset, offset};
    transport->push({&one, 1});
  }
  void complete(int number) {
    Message message{kPeer, {}};
    message.message.bytes[0] = static_cast<std::byte>(number);
    transport->complete({&message, 1});
  }
  static std::vector<std::byte> notice(std::size_t more = 0) {
    std::vector<std::byte> bytes(sizeof(RingEntry) + more);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 11);
    return bytes;
  }
  void expect_pulled(const Pulled& got, std::uint64_t bytes) {
    ASSERT_EQ(got.status, Status::kOk);
    std::size_t at = got.user;
    for (const Span& piece : got.view) {
      EXPECT_EQ(std::memcmp(piece.data, worker.region.data() + at, piece.bytes), 0);
      at += piece.bytes;
    }
    EXPECT_EQ(at - got.user, bytes);
    transport->release(got.handle);
  }

  FakeLink* link = nullptr;
  std::vector<std::byte> tiles;
  SoftWorker worker;
  std::optional<RoceTransport> transport;
  std::function<bool(const OnTheWire&)> loses = [](const OnTheWire&) { return false; };
  std::vector<Received> notices;
  std::vector<Pulled> pulled;
  std::vector<Pushed> pushed;
  std::vector<Peer> lost;
  int turns = 0;
};

TEST_F(RoceTransportTest, NoticesArrive) {
  worker.send(notice());
  run_until([&] { return !notices.empty(); });
  EXPECT_EQ(notices[0].peer, kPeer);
  EXPECT_EQ(std::memcmp(notices[0].message.bytes, notice().data(), sizeof(RingEntry)), 0);
}

TEST_F(RoceTransportTest, EmptyMessagesAreProbes) {
  worker.send({});
  worker.send(notice());
  run_until([&] { return !notices.empty(); });
  EXPECT_EQ(notices.size(), 1U);
}

TEST_F(RoceTransportTest, AProbeIsAsLongAsAPacketCanBe) {
  transport->detach(kPeer);
  worker.set_mtu(4096);
  attach();
  worker.send(std::vector<std::byte>(4096), 0);
  worker.send(notice());
  run_until([&] { return !notices.empty(); });
  EXPECT_TRUE(lost.empty()) << transport->why_lost(kPeer);
}

TEST_F(RoceTransportTest, MessagesOfOtherLengthsEndTheConnection) {
  worker.send(std::vector<std::byte>(10));
  run_until([&] { return !lost.empty(); });
  EXPECT_THAT(transport->why_lost(kPeer), HasSubstr("too short"));
  transport->detach(kPeer);
  worker.number = 0x78;
  attach();
  lost.clear();
  worker.send(std::vector<std::byte>(sizeof(RingEntry) + verbs::kEagerBytes + 1));
  run_until([&] { return !lost.empty(); });
  EXPECT_THAT(transport->why_lost(kPeer), HasSubstr("too long"));
}

TEST_F(RoceTransportTest, PullsReadTheWorkersMemory) {
  pull(0, 30'000);
  pull(30'001, 1);
  run_until([&] { return pulled.size() == 2; });
  for (const Pulled& got : pulled) expect_pulled(got, got.user == 0 ? 30'000 : 1);
}

class LongPacketsTest : public RoceTransportTest {
 public:
  LongPacketsTest() : RoceTransportTest(2048) {}
};

TEST_F(LongPacketsTest, PullsAreViewsOfTheFrames) {
  link->in_pieces = false;
  pull(2048, 30'000);
  run_until([&] { return !pulled.empty(); });
  EXPECT_EQ(pulled[0].view.size(), 15U) << "1: copied to one place";
  expect_pulled(pulled[0], 30'000);
}

TEST_F(RoceTransportTest, PullsOfShortPacketsAreInOnePlace) {
  link->in_pieces = false;
  pull(1024, 30'000);
  run_until([&] { return !pulled.empty(); });
  EXPECT_EQ(pulled[0].view.size(), 1U);
  expect_pulled(pulled[0], 30'000);
}

TEST_F(RoceTransportTest, PushesAreInPlaceBeforeTheCompletion) {
  push(100, 20'000);
  run_until([&] { return !pushed.empty(); });
  EXPECT_EQ(pushed[0].status, Status::kOk);
  EXPECT_EQ(std::memcmp(worker.region.data() + 100, tiles.data() + 100, 20'000), 0);
  push(30'000, 500, 500);
  complete(9);
  run_until([&] { return !worker.messages.empty(); });
  EXPECT_EQ(worker.messages[0][0], std::byte{9});
  EXPECT_EQ(std::memcmp(worker.region.data() + 30'000, tiles.data() + 30'000, 500), 0);
}

TEST_F(RoceTransportTest, RepairsWhatTheNetworkLoses) {
  int count = 0;
  loses = [&](const OnTheWire& one) {
    return one.packet.opcode == Opcode::kReadMiddle && ++count % 7 == 0;
  };
  pull(0, 60'000);
  run_until([&] { return !pulled.empty(); });
  expect_pulled(pulled[0], 60'000);
  EXPECT_GT(transport->counters().reads_repaired, 0U);
}

TEST_F(RoceTransportTest, ASilentPeerIsLost) {
  loses = [](const OnTheWire&) { return true; };
  pull(0, 100);
  run_until([&] { return !lost.empty(); });
  EXPECT_THAT(transport->why_lost(kPeer), HasSubstr("does not answer"));
  collect();
  ASSERT_EQ(pulled.size(), 1U);
  EXPECT_EQ(pulled[0].status, Status::kPeerLost);
}

TEST_F(RoceTransportTest, MemoryThatIsNotRegisteredEndsTheConnection) {
  worker.is_registered = false;
  pull(0, 100);
  run_until([&] { return !lost.empty(); });
  EXPECT_THAT(transport->why_lost(kPeer), HasSubstr("not registered"));
}

TEST_F(RoceTransportTest, PacketsOfStrangersChangeNothing) {
  worker.send(notice());
  std::vector<OnTheWire> sent = worker.poll(monotonic_now());
  OnTheWire other = sent.at(0);
  other.packet.route.source[15] = 77;
  link->to_node.push_back(other);
  other = sent.at(0);
  other.packet.pair ^= 1;
  link->to_node.push_back(other);
  collect();
  collect();
  EXPECT_EQ(transport->counters().strangers, 2U);
  EXPECT_TRUE(notices.empty());
  link->to_node.push_back(sent.at(0));
  run_until([&] { return !notices.empty(); });
}

TEST_F(RoceTransportTest, NotifiesAPeerOfCongestion) {
  pull(0, 60'000);
  bool marks = true;
  std::size_t at_once = 0;
  loses = [&](const OnTheWire& one) {
    at_once = std::max(at_once, link->from_node.size());
    const_cast<OnTheWire&>(one).packet.route.traffic_class = marks ? kEcnCongested : kEcnCapable;
    return false;
  };
  run_until([&] { return !pulled.empty(); });
  run_until([&] { return worker.congestion_notices > 0; });
  const Counters counted = transport->counters();
  EXPECT_GT(counted.marked, 0U);
  EXPECT_GE(counted.notices_sent, worker.congestion_notices);
  expect_pulled(pulled[0], 60'000);
}

TEST_F(RoceTransportTest, WaitsForTheRouteAndForRoom) {
  attach_without_route();
  pull(0, 5'000);
  for (int i = 0; i < 10; ++i) collect();
  EXPECT_TRUE(link->from_node.empty());
  link->knows_routes = true;
  link->room = 0;
  for (int i = 0; i < 10; ++i) collect();
  link->room = 1;
  run_until([&] { return !pulled.empty(); });
  expect_pulled(pulled[0], 5'000);
}

// A device may not read landing memory, where eager results wait.
TEST_F(RoceTransportTest, LendsOnlyTheMemoryOfTiles) {
  push(0, 5'000);
  run_until([&] { return !pushed.empty(); });
  EXPECT_THAT(link->kinds, ::testing::Each(Payload::kLent));
  link->kinds.clear();
  push(30'000, 500, 500);
  complete(1);
  run_until([&] { return !worker.messages.empty(); });
  EXPECT_THAT(link->kinds, ::testing::Each(Payload::kCopied));
}

TEST_F(RoceTransportTest, LooksRoutesUpAgain) {
  pull(0, 100);
  run_until([&] { return !pulled.empty(); });
  link->worker_mac[5] = 77;
  const Nanos end = monotonic_now() + 20 * kSecond;
  bool has_moved = false;
  while (!has_moved && monotonic_now() < end) {
    pull(0, 100);
    run_until([&] {
      for (const OnTheWire& one : link->from_node) {
        has_moved = has_moved || one.packet.route.target_mac == link->worker_mac;
      }
      return has_moved || pulled.size() > 1;
    });
    for (; pulled.size() > 1; pulled.pop_back()) transport->release(pulled.back().handle);
  }
  EXPECT_TRUE(has_moved);
}

TEST_F(RoceTransportTest, AsksForTheRouteBeforeTheFirstPacketComes) {
  EXPECT_EQ(link->route_questions, 1U);
}

TEST_F(RoceTransportTest, SleepsBesideAPeerThatCannotBeReached) {
  attach_without_route();
  link->to_node.push_back({});
  worker.send(notice());
  for (OnTheWire& one : worker.poll(monotonic_now())) link->to_node.push_back(std::move(one));
  run_until([&] { return !notices.empty(); });
  EXPECT_TRUE(transport->arm()) << "the peer will ask for its acknowledgement again";
  transport->disarm();
}

TEST_F(RoceTransportTest, NapsWhenItHasNothingToDo) {
  ASSERT_TRUE(transport->arm());
  pollfd entry{transport->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1) << "the nap ends by itself";
  transport->disarm();
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  pull(0, 100);
  EXPECT_FALSE(transport->arm());
  transport->disarm();
  run_until([&] { return !pulled.empty(); });
  expect_pulled(pulled[0], 100);
}

TEST_F(RoceTransportTest, DetachAnswersEverything) {
  pull(0, 5'000);
  push(0, 5'000);
  collect();
  transport->detach(kPeer);
  collect();
  ASSERT_EQ(pulled.size(), 1U);
  ASSERT_EQ(pushed.size(), 1U);
  EXPECT_EQ(pulled[0].status, Status::kPeerLost);
  EXPECT_EQ(pushed[0].status, Status::kPeerLost);
  EXPECT_EQ(transport->attached_count(), 0U);
}

// More than may have long READs on their way at a time.
TEST_F(RoceTransportTest, SilentPeersDoNotHoldUpTheOthers) {
  const std::uint32_t answering = worker.number;
  loses = [&](const OnTheWire& one) {
    const bool to_worker = one.packet.route.source[15] == kNode[15];
    return to_worker && one.packet.pair != answering;
  };
  for (Peer peer = 10; peer < 10 + 2 * Permits::kAtATime; ++peer) {
    worker.number = 100 + peer;
    ASSERT_TRUE(transport->attach(peer, worker.address(), 8));
    transport->add_region(peer, kRegion, {SoftWorker::kAddress, kBytes, SoftWorker::kKey});
    const Pull one{{peer, kRegion, 0, 60'000}, 0};
    transport->pull({&one, 1});
  }
  for (std::uint64_t offset = 0; offset < 5; ++offset) pull(offset, 60'000);
  run_until([&] { return pulled.size() == 5; });
  EXPECT_TRUE(lost.empty()) << "the others had not ended yet";
  for (const Pulled& got : pulled) expect_pulled(got, 60'000);
}

TEST_F(RoceTransportTest, RefusesClientsWithoutAnAddressOfItsFamily) {
  verbs::Address client = worker.address();
  client.ethernet = 0;
  EXPECT_EQ(transport->attach(4, client, 8).status(), Status::kUnsupported);
  client = worker.address();
  client.gid.raw[0] = 0xfd;
  EXPECT_EQ(transport->attach(4, client, 8).status(), Status::kUnsupported);
}

}  // namespace
}  // namespace tally::transport::roce
