// The shard and peers that are slow: neither their verdicts nor other jobs wait for them.
#include <gtest/gtest.h>

#include "tests/support/shard_faults_fixture.h"

namespace tally::engine {
namespace {

using testing::SingleShard;
using transport::LoopbackConfig;
using wire::Kind;
using wire::Notice;

constexpr std::uint64_t kElements = 1000;

class SlowPeersTest : public ShardFaultsTest {};

// A peer that goes on answering, ever so slowly, is not lost by itself; the verdict does not wait
// for it without end.
TEST_P(SlowPeersTest, APeerThatKeepsTheVerdictWaitingIsCutOff) {
  for (const bool pushes : {false, true}) {
    SingleShard node(decorated());
    transport::FaultRates slow;
    (pushes ? slow.delay_push : slow.delay_pull) = 1;
    faulty_->set_rates(1, slow);
    Notice n = SingleShard::notice(Kind::kAllReduce, kElements);
    n.deadline_ms = 50;
    node.send_all(n);
    node.turn();
    faulty_->stop(1);
    ASSERT_EQ(node.shard().tiles_in_flight(), 1u) << (pushes ? "pushes" : "pulls");
    node.turns(100);
    node.turn(3 * kSecond);
    EXPECT_TRUE(node.take(0).empty()) << "its buffers are in use";
    EXPECT_EQ(node.shard().counters().peers_lost.read(), 0u);
    node.turn(kSecond);
    node.settle();
    EXPECT_EQ(node.shard().counters().peers_lost.read(), 1u);
    expect_all(node, {0, 2}, Status::kDeadline, 1);
  }
}

// The window is full of tiles that wait for one rank: no other job waits for it.
TEST_P(SlowPeersTest, AStoppedRankHoldsNoOtherJobUp) {
  auto narrow = decorated();
  narrow.window_bytes = 64 << 10;
  SingleShard node(narrow);
  std::vector<std::byte> memory(kElements * 4);
  node.loopback().connect(3);
  node.loopback().add_region(3, SingleShard::kIn, memory);
  node.shard().protocol().add_job(1, {.epoch = 9, .ranks = 1});
  node.shard().protocol().join(1, 0, 3);
  transport::FaultRates slow;
  slow.delay_pull = 1;
  faulty_->set_rates(1, slow);
  node.send_all(SingleShard::notice(Kind::kAllReduce, 30'000));
  node.turn();
  faulty_->stop(1);
  ASSERT_GT(node.shard().tiles_in_flight(), 1u);
  for (std::uint32_t round = 0; round < 10; ++round) {
    Notice n = SingleShard::notice(Kind::kAllReduce, kElements);
    n.epoch = 9;
    n.round = round;
    n.out_region = n.in_region;
    node.send(3, n);
    node.turns(round == 0 ? 100 : 10);
    ASSERT_EQ(node.take(3).size(), 1u) << "round " << round;
  }
  faulty_->drop(1);
  node.settle();
  expect_all(node, {0, 2}, Status::kPeerLost, 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, SlowPeersTest,
                         ::testing::Values(LoopbackConfig::Mode::kDirect,
                                           LoopbackConfig::Mode::kStaged),
                         [](const auto& param) { return transport::name_of(param.param); });

}  // namespace
}  // namespace tally::engine
