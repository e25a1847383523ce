// The shard when something goes wrong: everybody gets the same verdict, nothing stays behind, and
// nobody who is gone is touched again (the loopback transport throws at that).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/shard_faults_fixture.h"

namespace tally::engine {
namespace {

using testing::SingleShard;
using transport::Faulty;
using transport::LoopbackConfig;
using wire::Kind;
using wire::Notice;

constexpr std::uint64_t kSmall = 1000;

TEST_P(ShardFaultsTest, ARegionThatIsNotThereFailsTheOperationForAll) {
  SingleShard node(options());
  struct Case {
    const char* what;
    void (*spoil)(Notice&);
  };
  const Case cases[] = {
      {"no such region", [](Notice& n) { n.in_region = 99; }},
      {"none", [](Notice& n) { n.out_region = wire::kNoRegion; }},
      {"past the end", [](Notice& n) { n.in_offset = SingleShard::kRegionBytes - 4 * kSmall + 1; }},
      {"far past the end", [](Notice& n) { n.out_offset = wire::kMaxBytes; }},
      {"too many elements", [](Notice& n) { n.count = wire::kMaxBytes / 4; }},
      {"no statistics", [](Notice& n) { n.flags = wire::kWantStats, n.side_region = 98; }},
  };
  std::uint32_t tag = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Notice n = SingleShard::notice(Kind::kAllReduce, kSmall, ++tag);
    Notice bad = n;
    c.spoil(bad);
    n.count = bad.count;
    node.send(2, bad);
    node.settle();
    node.send(0, n);
    node.send(1, n);
    node.settle();
    expect_all(node, {0, 1, 2}, Status::kBadRegion, 2);
    EXPECT_EQ(node.shard().protocol().inspect().operations(0), 0u);
  }
}

TEST_P(ShardFaultsTest, ARegionTakenAwayUnderWayFailsTheOperation) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  node.send(0, n);
  node.send(1, n);
  node.turns(2);
  node.loopback().remove_region(1, SingleShard::kIn);
  node.send(2, n);
  node.settle();
  expect_all(node, {0, 1, 2}, Status::kBadRegion, 1);
}

TEST_P(ShardFaultsTest, GarbageEndsTheSessionOfWhoeverSentIt) {
  SingleShard node(options());
  std::vector<transport::Peer> lost;
  node.shard().on_lost([&](transport::Peer peer) { lost.push_back(peer); });
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  node.send(0, n);
  node.send(1, n);
  RingEntry garbage{};
  garbage.bytes[0] = std::byte{0x55};
  node.loopback().send(2, garbage);
  node.loopback().send(2, garbage);
  node.send(2, n);  // in the same burst: too late
  node.settle();
  EXPECT_EQ(node.shard().counters().notices_refused.read(), 2u);
  EXPECT_EQ(node.shard().counters().peers_lost.read(), 1u);
  EXPECT_EQ(lost, std::vector<transport::Peer>{2});
  EXPECT_TRUE(node.take(2).empty());
  expect_all(node, {0, 1}, Status::kPeerLost, 2);
}

TEST_P(ShardFaultsTest, ACancelComesBackToAll) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  node.send(0, n);
  node.send(1, n);
  Notice cancel = n;
  cancel.kind = Kind::kCancel;
  cancel.root = 1;
  node.send(1, cancel);
  node.settle();
  node.send(2, n);
  node.settle();
  expect_all(node, {0, 1, 2}, Status::kCancelled, 1);
}

TEST_P(ShardFaultsTest, ACancelWaitsForTheTilesInFlight) {
  SingleShard node(decorated());
  Notice n = SingleShard::notice(Kind::kAllReduce, 20'000);
  node.send_all(n);
  faulty_->stop(1);  // its notice was not yet received
  node.turns(3);
  faulty_->resume(1);
  node.turn();
  transport::FaultRates slow;
  slow.delay_pull = slow.delay_push = 1;
  faulty_->set_rates(1, slow);
  Notice again = n;
  again.round = 1;
  node.settle();
  for (std::uint16_t rank = 0; rank < 3; ++rank) EXPECT_EQ(node.take(rank).size(), 1u);

  node.send_all(again);
  node.turn();
  EXPECT_GT(node.shard().tiles_in_flight(), 0u);
  again.kind = Kind::kCancel;
  node.send(0, again);
  node.turn();
  if (node.shard().tiles_in_flight() > 0) {
    for (std::uint16_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(node.take(rank).empty());
  }
  node.settle();
  expect_all(node, {0, 1, 2}, Status::kCancelled, 0);
  EXPECT_EQ(node.shard().protocol().inspect().operations(0), 0u);
}

// What has failed is not stored: in place the inputs are still whole, and the verdict says so.
TEST_P(ShardFaultsTest, NothingIsStoredForAnOperationThatFailedWhileItsInputsCame) {
  SingleShard node(decorated());
  for (std::uint16_t rank = 0; rank < 3; ++rank) SingleShard::fill(node.worker(rank).in, rank);
  const auto before = node.worker(0).in;
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  n.out_region = n.in_region;
  node.send_all(n);
  transport::FaultRates slow;
  slow.delay_pull = 1;
  faulty_->set_rates(1, slow);
  node.turn();
  ASSERT_EQ(node.shard().tiles_in_flight(), 1u);
  Notice cancel = n;
  cancel.kind = Kind::kCancel;
  node.send(2, cancel);
  node.settle();
  EXPECT_TRUE(node.worker(0).in == before);
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kCancelled);
    EXPECT_EQ(completions[0].flags & wire::kStarted, 0);
  }
}

// Whichever of the groups are added up or pushed by then.
TEST_P(ShardFaultsTest, OneOfManyRanksLostAtAnyTimeFailsTheOperationForTheOthers) {
  constexpr std::uint16_t kMany = 40;
  for (int turns = 0; turns < 14; ++turns) {
    SingleShard node(options(kMany));
    node.send_all(SingleShard::notice(Kind::kAllReduce, 20'000));
    node.turns(turns);
    if (node.take(0).size() == 1) break;
    node.loopback().drop(39);
    node.settle();
    for (std::uint16_t rank = 0; rank < 39; ++rank) {
      const auto completions = node.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank << ", after " << turns << " turns";
      EXPECT_EQ(completions[0].status, Status::kPeerLost);
      EXPECT_EQ(completions[0].culprit, 39);
    }
    EXPECT_TRUE(node.clean());
  }
}

// In place, and the last group is what fails: what was added up before is forgotten.
TEST_P(ShardFaultsTest, NothingIsStoredBeforeTheLastOfManyRanksHasCome) {
  constexpr std::uint16_t kMany = 40;
  SingleShard node(decorated(kMany));
  for (std::uint16_t rank = 0; rank < kMany; ++rank) {
    SingleShard::fill(node.worker(rank).in, rank);
  }
  const auto before = node.worker(0).in;
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  n.out_region = n.in_region;
  transport::FaultRates broken;
  broken.fail_pull = 1;
  faulty_->set_rates(39, broken);
  node.send_all(n);
  node.settle();
  EXPECT_TRUE(node.worker(0).in == before);
  for (std::uint16_t rank = 0; rank < kMany; ++rank) {
    const auto completions = node.take(rank);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kInternal);
    EXPECT_EQ(completions[0].culprit, 39);
    EXPECT_EQ(completions[0].flags & wire::kStarted, 0);
  }
  EXPECT_TRUE(node.clean());
}

TEST_P(ShardFaultsTest, APeerLostBeforeAllHaveAnnounced) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  node.send(0, n);
  node.send(1, n);
  node.turns(3);
  node.loopback().drop(1);
  node.settle();
  expect_all(node, {0}, Status::kPeerLost, 1);
  node.send(2, n);
  node.settle();
  expect_all(node, {2}, Status::kPeerLost, 1);
}

// Completions that wait to be sent are not sent to the dead.
TEST_P(ShardFaultsTest, TwoPeersLostAtOnce) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  node.send(0, n);
  node.send(1, n);
  node.turns(3);
  node.loopback().drop(1);
  node.loopback().drop(0);
  node.settle();
  EXPECT_EQ(node.shard().counters().peers_lost.read(), 2u);
  node.send(2, n);
  node.settle();
  expect_all(node, {2}, Status::kPeerLost, 0);
}

TEST_P(ShardFaultsTest, APeerLostAtTheMomentOfTheVerdict) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  n.deadline_ms = 5;
  node.send(0, n);
  node.turns(3);
  node.loopback().drop(0);
  node.turn(5 * kMillisecond);
  node.settle();
  EXPECT_TRUE(node.clean());
}

// The lost one receives from a tile whose inputs are still on their way: it must not be named to
// the transport again.
TEST_P(ShardFaultsTest, AReceiverLostWhileInputsAreOnTheirWayIsLeftAlone) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kBroadcast}) {
    SingleShard node(decorated());
    transport::FaultRates slow;
    slow.delay_pull = 1;
    faulty_->set_rates(0, slow);
    Notice n = SingleShard::notice(kind, kSmall);
    node.send_all(n);
    faulty_->stop(0);
    node.turns(2);
    faulty_->resume(0);
    node.turn();
    faulty_->stop(0);  // its input does not come
    ASSERT_EQ(node.shard().tiles_in_flight(), 1u);
    node.loopback().drop(2);
    node.turns(20);
    EXPECT_EQ(node.shard().counters().peers_lost.read(), 1u);
    ASSERT_EQ(node.shard().tiles_in_flight(), 1u);
    faulty_->resume(0);
    node.settle();
    expect_all(node, {0, 1}, Status::kPeerLost, 2);
  }
}

TEST_P(ShardFaultsTest, AFencedPeerIsNotStoredTo) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  for (std::uint16_t rank = 0; rank < 3; ++rank) SingleShard::fill(node.worker(rank).in, rank);
  node.loopback().fence(2);
  node.send_all(n);
  node.settle();
  expect_all(node, {0, 1, 2}, Status::kPeerLost, 2);
  const auto& out = node.worker(2).out;
  EXPECT_TRUE(
      std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{0xee}; }));
}

TEST_P(ShardFaultsTest, APeerWhoseMemoryIsNotThereSpoilsNothingButItsOperation) {
  SingleShard node(options());
  node.loopback().take_memory(1);
  node.send_all(SingleShard::notice(Kind::kAllReduce, kSmall));
  node.settle();
  expect_all(node, {0, 2}, Status::kPeerLost, 1);
  node.send(0, SingleShard::notice(Kind::kAllReduce, kSmall, 2));
  node.settle();
  expect_all(node, {0}, Status::kPeerLost, 1);
}

TEST_P(ShardFaultsTest, AnErrorOfTheTransportNamesThePeer) {
  for (const bool push : {false, true}) {
    SingleShard node(decorated());
    transport::FaultRates failing;
    (push ? failing.fail_push : failing.fail_pull) = 1;
    failing.fail_status = Status::kInternal;
    faulty_->set_rates(1, failing);
    node.send_all(SingleShard::notice(Kind::kAllReduce, kSmall));
    node.settle();
    expect_all(node, {0, 1, 2}, Status::kInternal, 1);
  }
}

// Two inputs of one tile fail. The second failure may be a consequence of the first.
TEST_P(ShardFaultsTest, VerdictNamesFirstFailureOfTile) {
  for (const transport::Peer first : {0U, 1U}) {
    SingleShard node(decorated());
    for (const transport::Peer peer : {0U, 1U}) {
      transport::FaultRates failing;
      failing.fail_pull = 1;
      failing.fail_status = peer == first ? Status::kInternal : Status::kBadRegion;
      // The delay makes this answer the second one.
      failing.delay_pull = peer == first ? 0 : 1;
      faulty_->set_rates(peer, failing);
    }
    node.send_all(SingleShard::notice(Kind::kAllReduce, kSmall));
    node.settle();
    expect_all(node, {0, 1, 2}, Status::kInternal, first);
  }
}

TEST_P(ShardFaultsTest, TheDeadlineNamesWhoHasNotAnnounced) {
  SingleShard node(options());
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  n.deadline_ms = 50;
  node.send(2, n);
  node.send(0, n);
  node.turns(45);
  EXPECT_TRUE(node.take(0).empty());
  node.turns(10);
  node.send(1, n);
  node.settle();
  expect_all(node, {0, 1, 2}, Status::kDeadline, 1);
}

TEST_P(ShardFaultsTest, CompletionsThatAreNotTakenEndTheSession) {
  auto full = options();
  full.loopback.completion_entries = 2;
  SingleShard node(full);
  Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
  for (n.round = 0; n.round < 4; ++n.round) {
    node.send_all(n);
    node.settle();
    node.take(0);
    node.take(1);
  }
  EXPECT_EQ(node.shard().counters().peers_lost.read(), 1u);
  EXPECT_EQ(node.take(2).size(), 2u);
  EXPECT_TRUE(node.clean());
}

TEST_P(ShardFaultsTest, AnotherJobIsNotDisturbed) {
  SingleShard node(decorated());
  std::vector<std::byte> memory(kSmall * 4);
  node.loopback().connect(3);
  node.loopback().add_region(3, SingleShard::kIn, memory);
  node.shard().protocol().add_job(1, {.epoch = 9, .ranks = 1});
  node.shard().protocol().join(1, 0, 3);
  node.send_all(SingleShard::notice(Kind::kAllReduce, 20'000));
  faulty_->stop(1);
  node.turns(3);
  for (std::uint32_t round = 0; round < 10; ++round) {
    Notice n = SingleShard::notice(Kind::kAllReduce, kSmall);
    n.epoch = 9;
    n.round = round;
    n.out_region = n.in_region;
    node.send(3, n);
    node.turns(3);
    const auto completions = node.take(3);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, Status::kOk);
  }
  faulty_->drop(1);
  node.settle();
  expect_all(node, {0, 2}, Status::kPeerLost, 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, ShardFaultsTest,
                         ::testing::Values(LoopbackConfig::Mode::kDirect,
                                           LoopbackConfig::Mode::kStaged),
                         [](const auto& param) { return transport::name_of(param.param); });

}  // namespace
}  // namespace tally::engine
