// The books that the protocol keeps, with exact times.
#include "dataplane/protocol/job/job_metrics.h"

#include <gtest/gtest.h>

#include "dataplane/protocol/aggregator.h"

namespace tally::protocol {
namespace {

using wire::Kind;
using wire::Notice;

class JobMetricsTest : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kRanks = 3;
  static constexpr std::uint64_t kCount = 9000;

  JobMetricsTest() {
    aggregator_.add_job(0, JobSpec{.epoch = 7, .ranks = kRanks, .weight = 1, .credit = 4});
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) aggregator_.join(0, rank, rank);
  }

  static AggregatorConfig config() {
    AggregatorConfig config;
    config.plan = even_partition(1, 1 << 20);
    config.tile_bytes = 16 << 10;
    return config;
  }

  static Notice notice(Kind kind, std::uint64_t count, std::uint32_t round = 0) {
    Notice n;
    n.kind = kind;
    n.epoch = 7;
    n.tag = 5;
    n.round = round;
    n.count = count;
    n.in_region = 1;
    n.out_region = 2;
    return n;
  }

  void announce(SessionId member, const Notice& n, Nanos now) {
    aggregator_.announce(member, n, Status::kOk, now);
  }

  // Each tile: 10 until the inputs are there, 20 for the sum, 3 until it is placed.
  Nanos move_all(Nanos now) {
    Tile tile;
    while (aggregator_.tiles().start_tile(tile)) {
      aggregator_.tiles().pulling(tile, now);
      aggregator_.tiles().storing(tile, now + 10);
      aggregator_.tiles().stored(tile, now + 30);
      aggregator_.tiles().end_tile(tile, Status::kOk, kNoSession, now + 33);
      now += 33;
    }
    return now;
  }

  Aggregator aggregator_{config()};
};

TEST_F(JobMetricsTest, TheTimeOfTheMeanRankIsDividedWithoutRest) {
  announce(1, notice(Kind::kAllReduce, kCount), 1000);
  announce(2, notice(Kind::kAllReduce, kCount), 1030);
  announce(0, notice(Kind::kAllReduce, kCount), 1090);  // ready; ranks waited 90, 60, 0
  EXPECT_EQ(move_all(1100), 1100 + 3 * 33);
  const JobTotals& totals = aggregator_.inspect().totals(0);
  EXPECT_EQ(totals.parts, 1u);
  EXPECT_EQ(totals.bytes, 4 * kCount * kRanks);
  EXPECT_EQ(totals.waiting, 50);
  EXPECT_EQ(totals.queueing, 10);
  EXPECT_EQ(totals.pulling, 30);
  EXPECT_EQ(totals.summing, 60);
  EXPECT_EQ(totals.pushing, 9);
}

TEST_F(JobMetricsTest, EachRankHasItsOwnBooks) {
  announce(1, notice(Kind::kAllReduce, kCount), 1000);
  announce(2, notice(Kind::kAllReduce, kCount), 1030);
  announce(0, notice(Kind::kAllReduce, kCount), 1090);
  move_all(1100);
  for (const SessionId m : {2u, 1u, 0u}) announce(m, notice(Kind::kReduce, kCount, 1), 2000);
  move_all(2000);
  for (const SessionId m : {2u, 0u, 1u}) announce(m, notice(Kind::kBarrier, 0, 2), 3000 + 9 * m);
  const auto ranks = aggregator_.inspect().rank_counters(0);
  ASSERT_EQ(ranks.size(), 3u);
  for (const RankCounters& rank : ranks) {
    EXPECT_EQ(rank.notices, 3u);
    EXPECT_EQ(rank.completions, 3u);
    EXPECT_EQ(rank.failures, 0u);
    EXPECT_EQ(rank.bytes_in, 2 * 4 * kCount);
  }
  EXPECT_EQ(ranks[0].bytes_out, 2 * 4 * kCount) << "the root of the reduce";
  EXPECT_EQ(ranks[1].bytes_out, 4 * kCount);
  EXPECT_EQ(ranks[0].times_last, 2u) << "and of two at once the later one; barriers do not count";
  EXPECT_EQ(ranks[0].lateness, 60);
  EXPECT_EQ(ranks[1].times_last + ranks[2].times_last, 0u);
}

TEST_F(JobMetricsTest, ARankCountsTheFailuresThatItIsNotifiedOf) {
  announce(0, notice(Kind::kAllReduce, kCount), 0);
  announce(1, notice(Kind::kAllReduce, kCount + 1), 0);  // both are notified
  announce(2, notice(Kind::kAllReduce, kCount), 0);      // late: notified too
  announce(2, notice(Kind::kAllReduce, kCount, 1), 0);
  aggregator_.gone(2, Status::kPeerLost, 0);  // no rank is left to notify
  const auto ranks = aggregator_.inspect().rank_counters(0);
  for (const RankCounters& rank : ranks) {
    EXPECT_EQ(rank.failures, 1u);
    EXPECT_EQ(rank.completions, 0u);
    EXPECT_EQ(rank.bytes_in, 0u);
  }
  EXPECT_EQ(ranks[2].notices, 2u) << "what a rank did is known after it has gone";
  EXPECT_EQ(aggregator_.inspect().totals(0).parts, 0u);
}

TEST_F(JobMetricsTest, ATraceHasEveryStampInOrder) {
  aggregator_.inspect().set_trace(0, 8);
  announce(1, notice(Kind::kAllReduce, kCount), 1000);
  announce(2, notice(Kind::kAllReduce, kCount), 1030);
  announce(0, notice(Kind::kAllReduce, kCount), 1090);
  move_all(1100);
  announce(1, notice(Kind::kAllReduce, kCount, 1), 2000);
  aggregator_.gone(2, Status::kPeerLost, 2500);
  const auto taken = aggregator_.inspect().take_trace(0);
  EXPECT_EQ(taken.dropped, 0u);
  ASSERT_EQ(taken.records.size(), 2u);
  const TraceRecord& done = taken.records[0];
  EXPECT_EQ(done.key, (OperationKey{0, 0, 5, 0}));
  EXPECT_EQ(done.last_rank, 0);
  EXPECT_EQ(done.count, kCount);
  EXPECT_EQ(done.notice, 1000);
  EXPECT_EQ(done.ready, 1090);
  EXPECT_EQ(done.started, 1100);
  EXPECT_EQ(done.pulled, 1100 + 2 * 33 + 10);
  EXPECT_EQ(done.summed, 1100 + 2 * 33 + 30);
  EXPECT_EQ(done.completed, 1199);
  EXPECT_EQ(done.pulling + done.summing + done.pushing, 99);
  const TraceRecord& failed = taken.records[1];
  EXPECT_EQ(failed.verdict.status, Status::kPeerLost);
  EXPECT_EQ(failed.notice, 2000);
  EXPECT_EQ(failed.ready, 0);
  EXPECT_EQ(failed.completed, 2500);
  EXPECT_TRUE(aggregator_.inspect().take_trace(0).records.empty());
}

TEST_F(JobMetricsTest, ATraceKeepsTheLatestAndCountsTheRest) {
  const auto run = [&](std::uint32_t round) {
    for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(Kind::kAllReduce, 64, round), 100);
    move_all(100);
  };
  run(0);
  EXPECT_TRUE(aggregator_.inspect().take_trace(0).records.empty()) << "off";
  aggregator_.inspect().set_trace(0, 2);
  for (std::uint32_t round = 1; round < 6; ++round) run(round);
  auto taken = aggregator_.inspect().take_trace(0);
  EXPECT_EQ(taken.dropped, 3u);
  ASSERT_EQ(taken.records.size(), 2u);
  EXPECT_EQ(taken.records[0].key.round, 4u);
  EXPECT_EQ(taken.records[1].key.round, 5u);
  run(6);
  taken = aggregator_.inspect().take_trace(0);
  EXPECT_EQ(taken.dropped, 0u);
  ASSERT_EQ(taken.records.size(), 1u);
  aggregator_.inspect().set_trace(0, 0);
  run(7);
  EXPECT_TRUE(aggregator_.inspect().take_trace(0).records.empty()) << "off again";
}

TEST_F(JobMetricsTest, TheLatestOperationsAreKeptWithATraceAndWithoutOne) {
  const auto run = [&](std::uint32_t round) {
    for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(Kind::kAllReduce, 64, round), 100);
    move_all(100);
  };
  const auto latest = [&] { return aggregator_.inspect().latest(0); };
  EXPECT_TRUE(latest().empty());
  for (std::uint32_t round = 0; round < TraceRing::kLatest + 6; ++round) run(round);
  ASSERT_EQ(latest().size(), TraceRing::kLatest);
  EXPECT_EQ(latest().front().key.round, 6u);
  aggregator_.inspect().set_trace(0, 4096);
  EXPECT_EQ(latest().front().key.round, 6u) << "a trace does not lose them";
  run(TraceRing::kLatest + 6);
  EXPECT_EQ(aggregator_.inspect().take_trace(0).records.size(), 1u) << "and has none from before";
  aggregator_.inspect().set_trace(0, 0);
  ASSERT_EQ(latest().size(), TraceRing::kLatest);
  EXPECT_EQ(latest().front().key.round, 7u);
  EXPECT_EQ(latest().back().key.round, TraceRing::kLatest + 6);
}

}  // namespace
}  // namespace tally::protocol
