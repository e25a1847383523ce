// The times that the engine reports, over the loopback transport and with the test's clock.
#include <gtest/gtest.h>

#include "tests/support/single_shard.h"

namespace tally::engine {
namespace {

using testing::SingleShard;
using wire::Kind;

// Turns are 1 ms apart and the transport answers in the next one.
TEST(ShardMetrics, TransfersThatTakeTurnsAreSeen) {
  SingleShard::Options options;
  options.loopback.mode = transport::LoopbackConfig::Mode::kStaged;
  SingleShard node(options);
  const auto notice = SingleShard::notice(Kind::kAllReduce, 4096);
  node.send(0, notice);
  node.turn();
  node.turns(4);
  node.send(2, notice);
  node.send(1, notice);
  node.settle();
  const protocol::JobTotals& totals = node.shard().protocol().inspect().totals(0);
  EXPECT_EQ(totals.parts, 1u);
  EXPECT_EQ(totals.bytes, 3 * 4096 * 4u);
  EXPECT_EQ(totals.waiting, 1666667) << "one of three ranks waited, 5 ms";
  EXPECT_EQ(totals.pulling, kMillisecond);
  EXPECT_EQ(totals.pushing, kMillisecond);
  EXPECT_EQ(totals.queueing, 0);
  EXPECT_EQ(totals.summing, 0) << "within a turn this clock stands still";
  const auto ranks = node.shard().protocol().inspect().rank_counters(0);
  EXPECT_EQ(ranks[1].times_last, 1u);
  EXPECT_EQ(ranks[0].bytes_in, 4096 * 4u);
  EXPECT_EQ(ranks[0].bytes_in + ranks[1].bytes_in + ranks[2].bytes_in,
            node.shard().counters().bytes_in.read());
  EXPECT_EQ(ranks[0].bytes_out + ranks[1].bytes_out + ranks[2].bytes_out,
            node.shard().counters().bytes_out.read());
}

}  // namespace
}  // namespace tally::engine
