// Many connections of one shard: their bytes are right, and the memory of each is bounded, also
// where a peer tries to make it grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "dataplane/transport/roce/roce_transport.h"
#include "tests/support/counted_new.h"
#include "tests/support/roce/soft_worker.h"

namespace tally::transport::roce {
namespace {

using tally::testing::allocated_bytes;
using tally::testing::FakeLink;
using tally::testing::OnTheWire;
using tally::testing::SoftWorker;

// docs/roce.md has these numbers. They are of a connection with a credit of 60 and one region.
constexpr std::size_t kMostIdle = 4 << 10;
constexpr std::size_t kMostByPeer = 32 << 10;
constexpr std::size_t kMostOfRequester = 48 << 10;

constexpr std::uint32_t kCredit = 60;
constexpr std::uint32_t kConnections = 1024;
constexpr std::uint32_t kFirstNumber = 0x1000;  // of the workers' queue pairs
constexpr std::uint32_t kRegion = 5;
constexpr std::size_t kRegionBytes = 16 << 10;
constexpr std::size_t kPullBytes = 6'000;
constexpr std::size_t kPushAt = 8'000;  // in the region
constexpr std::size_t kPushBytes = 5'000;
constexpr std::uint32_t kMtu = 1024;
constexpr IpAddress kNode = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1};
constexpr IpAddress kWorker = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 2};

// A shard's transport and its workers, over a link without devices.
class ConnectionsTest : public ::testing::Test {
 public:
  ConnectionsTest() : tiles_(kRegionBytes) {
    TransportOptions options;
    options.address = kNode;
    options.landing_bytes = 16 << 20;
    options.tiles = tiles_;
    options.ack_timeout = 2 * kSecond;  // with sanitizers a turn takes long
    auto made = std::make_unique<FakeLink>();
    link = made.get();
    link->in_pieces = false;
    transport = std::make_unique<RoceTransport>(std::move(made), options);
    for (std::size_t i = 0; i < kRegionBytes; ++i) tiles_[i] = static_cast<std::byte>(i * 3);
  }
  void attach(std::uint32_t count) {
    for (Peer peer = 0; peer < count; ++peer) {
      workers.push_back(std::make_unique<SoftWorker>(kWorker, kRegionBytes, kMtu));
      SoftWorker& worker = *workers.back();
      worker.number = kFirstNumber + peer;
      for (std::size_t i = 0; i < kRegionBytes; ++i) {
        worker.region[i] = static_cast<std::byte>(i * 7 + peer * 13 + peer / 256);
      }
      const auto address = transport->attach(peer, worker.address(), kCredit);
      ASSERT_TRUE(address) << address.error().message;
      worker.connect(*address);
      numbers.push_back(address->number);
      transport->add_region(peer, kRegion, {SoftWorker::kAddress, kRegionBytes, SoftWorker::kKey});
    }
  }
  // Every worker sends messages; the shard pulls, pushes and completes. Each so often at once.
  void exchange(std::size_t times = 1) {
    const std::size_t all = times * workers.size();
    std::vector<Pull> pulls;
    std::vector<Push> pushes;
    for (std::size_t i = 0; i < all; ++i) {
      const auto peer = static_cast<Peer>(i % workers.size());
      workers[peer]->send(message_of(peer, 0));
      workers[peer]->send(message_of(peer, 2048));  // three packets
      for (const std::uint64_t at : {0U, 1U}) {
        pulls.push_back({{peer, kRegion, at, kPullBytes}, peer * 2 + at});
      }
      pushes.push_back(
          {{{peer, kRegion, kPushAt, kPushBytes}, nullptr, 0, 1}, tiles_.data(), peer});
    }
    transport->pull(pulls);
    transport->push(pushes);
    received = pulled = completed = 0;
    run_until([&] { return received == 2 * all && pulled == 2 * all && completed == all; });
    run_until([&] {
      return std::all_of(workers.begin(), workers.end(),
                         [&](const auto& worker) { return worker->messages.size() == times; });
    });
    if (HasFatalFailure()) return;
    for (Peer peer = 0; peer < workers.size(); ++peer) {
      SoftWorker& worker = *workers[peer];
      EXPECT_EQ(worker.messages[0][0], static_cast<std::byte>(peer));
      worker.messages.clear();
      EXPECT_EQ(std::memcmp(worker.region.data() + kPushAt, tiles_.data(), kPushBytes), 0) << peer;
      std::memset(worker.region.data() + kPushAt, 0, kPushBytes);
    }
  }
  // Until acknowledgements have come, and nothing waits for them.
  void settle() {
    run_until([&] {
      const bool sleeps = transport->arm();
      transport->disarm();
      return sleeps && link->from_node.empty() && link->to_node.empty();
    });
  }
  // What the connection has held, in bytes.
  std::size_t detach(Peer peer) {
    const std::size_t before = allocated_bytes();
    transport->detach(peer);
    return before - allocated_bytes();
  }
  std::size_t detach_all() {
    std::size_t most = 0;
    for (Peer peer = 0; peer < workers.size(); ++peer) most = std::max(most, detach(peer));
    return most;
  }
  static std::vector<std::byte> message_of(Peer peer, std::size_t more) {
    std::vector<std::byte> bytes(sizeof(RingEntry) + more, static_cast<std::byte>(peer));
    return bytes;
  }
  void collect() {
    Received notice;
    while (transport->receive({&notice, 1}) == 1) {
      ++received;
      ASSERT_EQ(notice.message.bytes[0], static_cast<std::byte>(notice.peer));
    }
    Pulled got;
    while (transport->pulled({&got, 1}) == 1) {
      ++pulled;
      ASSERT_EQ(got.status, Status::kOk);
      const std::byte* expected = workers[got.user / 2]->region.data() + got.user % 2;
      for (const Span& piece : got.view) {
        EXPECT_EQ(std::memcmp(piece.data, expected, piece.bytes), 0) << got.user;
        expected += piece.bytes;
      }
      transport->release(got.handle);
    }
    Pushed placed;
    while (transport->pushed({&placed, 1}) == 1) {
      ++completed;
      ASSERT_EQ(placed.status, Status::kOk);
      const auto peer = static_cast<Peer>(placed.user);
      Message message{peer, {}};
      message.message.bytes[0] = static_cast<std::byte>(peer);
      transport->complete({&message, 1});
    }
  }
  // Carries packets until `done`, for at most some seconds.
  void run_until(const std::function<bool()>& done) {
    const Nanos end = monotonic_now() + 20 * kSecond;
    for (std::uint32_t turn = 0; !done() && monotonic_now() < end; ++turn) {
      collect();
      const Nanos now = monotonic_now();
      for (; !link->from_node.empty(); link->from_node.pop_front()) {
        const OnTheWire& one = link->from_node.front();
        if (loses(one)) continue;
        SoftWorker& worker = *workers[one.packet.pair - kFirstNumber];
        worker.receive(one, now);
        poll(worker, now);
      }
      if (turn % 16 > 0) continue;  // the workers' timers are long
      for (const auto& worker : workers) poll(*worker, now);
    }
    ASSERT_TRUE(done()) << "not in time";
  }
  void poll(SoftWorker& worker, Nanos now) {
    for (OnTheWire& one : worker.poll(now)) {
      if (!loses(one)) link->to_node.push_back(std::move(one));
    }
  }
  // A packet of a worker, with this number after its first one.
  void inject(std::uint32_t ahead, Opcode opcode, std::uint32_t payload, Peer peer = 0) {
    OnTheWire one;
    one.packet.route.source = kWorker;
    one.packet.pair = numbers[peer];
    one.packet.opcode = opcode;
    one.packet.psn = Psn(workers[peer]->address().first_packet) + ahead;
    one.packet.asks_for_ack = true;
    one.packet.payload = payload;
    one.payload.resize(payload);
    link->to_node.push_back(std::move(one));
    transport->receive({});
  }

  FakeLink* link = nullptr;
  std::unique_ptr<RoceTransport> transport;
  std::vector<std::unique_ptr<SoftWorker>> workers;  // by peer
  std::vector<std::uint32_t> numbers;                // of the node's queue pairs, by peer
  std::function<bool(const OnTheWire&)> loses = [](const OnTheWire&) { return false; };
  std::size_t received = 0, pulled = 0, completed = 0;

 private:
  std::vector<std::byte> tiles_;
};

TEST_F(ConnectionsTest, ThousandsAreServedAtOnce) {
  attach(kConnections);
  exchange();
  // What the soft worker gets may not be out of order, so only acknowledgements are lost there.
  std::mt19937 dice(7);
  loses = [&](const OnTheWire& one) {
    const bool is_from_node = is_same(one.packet.route.source, kNode);
    return (!is_from_node || one.packet.opcode == Opcode::kAcknowledge) && dice() % 50 == 0;
  };
  exchange();
  loses = [](const OnTheWire&) { return false; };
  exchange();
  settle();
  const Counters counters = transport->counters();
  EXPECT_GT(counters.reads_repaired, 0U);
  EXPECT_GT(counters.out_of_order, 0U);
  const std::size_t most = detach_all();
  RecordProperty("idle_bytes", static_cast<int>(most));
  EXPECT_LE(most, kMostIdle);
}

TEST_F(ConnectionsTest, ANewOneHoldsLittle) {
  attach(1);
  const std::size_t held = detach(0);
  RecordProperty("bytes", static_cast<int>(held));
  EXPECT_LE(held, kMostIdle / 2);
}

TEST_F(ConnectionsTest, OneThatHadMuchToDoHoldsLittleAgain) {
  attach(1);
  exchange(kCredit);
  settle();
  const std::size_t held = detach(0);
  RecordProperty("bytes", static_cast<int>(held));
  EXPECT_LE(held, kMostIdle);
}

// No answer leaves, and the first packet of a message in many pieces has come.
TEST_F(ConnectionsTest, APeerCannotMakeItGrow) {
  attach(1);
  link->room = 0;
  std::uint32_t psn = 0;
  const auto far = static_cast<std::uint32_t>(Responder::kMostEarly) + 1;
  for (int i = 0; i < 1000; ++i) {
    inject(psn + far, Opcode::kSendOnly, 64);  // it is asked to go back
    inject(psn++, Opcode::kSendOnly, 0);       // acknowledged
  }
  for (std::uint32_t i = 0; i < RoceTransport::kReads; ++i) {
    inject(psn++, Opcode::kReadRequest, 0);
    inject(psn++, Opcode::kSendOnly, 0);
  }
  for (int i = 0; i < 1000; ++i) {
    inject(psn - 2, Opcode::kReadRequest, 0);  // again
    inject(psn - 1, Opcode::kSendOnly, 0);
  }
  inject(psn++, Opcode::kSendFirst, kMtu);
  for (std::uint32_t ahead = 1; ahead < 2 * far; ++ahead) {
    inject(psn + ahead, Opcode::kSendMiddle, kMtu);
    inject(psn + ahead, Opcode::kSendMiddle, kMtu);
  }
  EXPECT_TRUE(transport->why_lost(0).empty()) << transport->why_lost(0);
  EXPECT_GT(transport->counters().duplicates, 2000U);
  const std::size_t most = detach(0);
  RecordProperty("bytes", static_cast<int>(most));
  EXPECT_LE(most, kMostByPeer);
}

// Each keeps a frame, which the port needs.
TEST_F(ConnectionsTest, EarlyPacketsOfAllConnectionsAreBounded) {
  constexpr Peer kPeers = 20;
  attach(kPeers);
  for (Peer peer = 0; peer < kPeers; ++peer) {
    for (std::uint32_t ahead = 1; ahead <= Responder::kMostEarly; ++ahead) {
      inject(ahead, Opcode::kSendOnly, 0, peer);
    }
  }
  EXPECT_EQ(transport->counters().out_of_order, HeldArrivals::kMostEarly);
  inject(0, Opcode::kSendOnly, 0);  // those of the first peer are not early any more
  inject(1, Opcode::kSendOnly, 0, kPeers - 1);
  EXPECT_EQ(transport->counters().out_of_order, HeldArrivals::kMostEarly + 1);
}

// A requester and a peer that answers as it likes.
class RequesterMemoryTest : public ::testing::Test {
 public:
  static constexpr std::uint32_t kPackets = 4 * kReadPackets;  // of a work, at most

  static PairOptions options() {
    PairOptions options;
    options.mtu = 256;
    options.ack_timeout = kSecond;
    return options;
  }
  RequesterMemoryTest() {
    asked.reserve(1 << 16);
    const std::size_t before = allocated_bytes();
    requester = std::make_unique<Requester>(options());
    others_ = before;
  }
  void post(WorkKind kind, std::uint32_t packets) {
    const Work work{.kind = kind, .bytes = packets * options().mtu, .address = 1 << 20};
    if (requester->failure() == Failure::kNone && requester->room_for(work) <= requester->room()) {
      requester->post(work);
    }
  }
  // What is sent, and what is done.
  void progress() {
    requester->tick(now);
    for (Outgoing packet; requester->next(packet, now); packet = {}) {
      last_sent = packet.psn;
      if (packet.opcode == Opcode::kReadRequest) asked.push_back(packet);
    }
    for (Done done; requester->next_done(done);) ++completed;
    most = std::max(most, allocated_bytes() - others_);
  }
  // A packet of the answer to a READ.
  void answer(const Outgoing& read, std::uint32_t index) {
    const std::uint32_t count = packets_of(read.reth.bytes, options().mtu);
    Packet packet;
    packet.opcode = part_of(Opcode::kReadFirst, Opcode::kReadMiddle, Opcode::kReadLast,
                            Opcode::kReadOnly, index, count);
    packet.psn = read.psn + index;
    packet.aeth.syndrome = kAnyCredits;
    packet.payload = std::min(options().mtu, read.reth.bytes - index * options().mtu);
    requester->receive(packet, now);
  }
  void acknowledge(Psn psn) {
    Packet packet;
    packet.opcode = Opcode::kAcknowledge;
    packet.psn = psn;
    packet.aeth.syndrome = kAnyCredits;
    requester->receive(packet, now);
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(dice() % limit); }

  std::mt19937 dice{7};
  std::unique_ptr<Requester> requester;
  std::vector<Outgoing> asked;  // READs that were sent
  Psn last_sent;
  std::size_t completed = 0;
  std::size_t most = 0;  // bytes that the requester had
  Nanos now = 1;

 private:
  std::size_t others_ = 0;  // bytes
};

// The peer answers single packets of READs, so each READ falls into many.
TEST_F(RequesterMemoryTest, PiecesOfReadsAreBounded) {
  for (int i = 0; i < 200'000; ++i) {
    if (below(4) == 0) {
      post(below(4) > 0 ? WorkKind::kRead : WorkKind::kWrite, 1 + below(kPackets));
    }
    if (below(8) == 0) requester->set_window(4U << below(8));
    progress();
    if (asked.empty()) continue;
    const std::size_t recent = std::min<std::size_t>(asked.size(), 16);
    const Outgoing read = asked[asked.size() - 1 - below(static_cast<std::uint32_t>(recent))];
    const std::uint32_t count = packets_of(read.reth.bytes, options().mtu);
    const std::uint32_t each = 1 + below(4);
    for (std::uint32_t index = below(each); index < count; index += each) answer(read, index);
    if (below(64) == 0) acknowledge(last_sent);
    now += below(200'000);
    if (asked.size() > 1000) asked.erase(asked.begin(), asked.end() - 16);
  }
  RecordProperty("bytes", static_cast<int>(most));
  EXPECT_GT(completed, 1000U);
  EXPECT_EQ(requester->failure(), Failure::kNone);
  EXPECT_LE(most, kMostOfRequester);
}

// Every other packet of all READs is lost at the same time.
TEST_F(RequesterMemoryTest, RepairsAreFewerWhereThereIsNoRoom) {
  requester->set_window(UINT16_MAX);
  for (std::size_t i = 0; i < Requester::kMostRequests; ++i) {
    post(WorkKind::kRead, kReadPackets);
  }
  progress();
  ASSERT_EQ(asked.size(), options().reads_out);
  for (const Outgoing& read : asked) {
    for (std::uint32_t index = 1; index < kReadPackets; index += 2) answer(read, index);
  }
  progress();
  now += options().reorder_wait;
  progress();
  EXPECT_GT(requester->counters().reads_repaired, kReadPackets);
  RecordProperty("bytes", static_cast<int>(most));
  EXPECT_LE(most, kMostOfRequester);
}

// The peer lets a READ wait, with one packet of it at a time, while all others are done.
TEST_F(RequesterMemoryTest, WhatIsDoneAfterASlowReadIsBounded) {
  post(WorkKind::kRead, kReadPackets);
  requester->set_window(256);
  for (int i = 0; i < 10'000; ++i) {
    post(WorkKind::kSend, 1);
    progress();
    acknowledge(last_sent);
    now += options().reorder_wait / 4;
    // The READ for what is still missing.
    const std::uint32_t left = packets_of(asked.back().reth.bytes, options().mtu);
    if (i % 500 == 0 && left > 1) answer(asked.back(), 0);
  }
  EXPECT_EQ(requester->failure(), Failure::kNone);
  EXPECT_GT(asked.size(), 2U);
  EXPECT_LE(most, kMostOfRequester);
}

}  // namespace
}  // namespace tally::transport::roce
