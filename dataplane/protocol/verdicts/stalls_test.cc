// Which operation does not go on, and why. The test has the clock.
#include "dataplane/protocol/verdicts/stalls.h"

#include "tests/support/protocol/aggregator_fixture.h"
#include "tests/support/protocol/vertex_fixture.h"

namespace tally::protocol {
namespace {

using Ranks = std::vector<std::uint16_t>;

constexpr Nanos kLater = kShortestStall + 1;

class StallsTest : public AggregatorTest {
 protected:
  Health health(Nanos now, const std::vector<SessionId>& awaited = {}) {
    return aggregator_->health(0, now, [&](PoolIndex) { return awaited; });
  }

  // Rank 2 announces `wait` after the others, and the bytes take `work`.
  void run(std::uint32_t round, Nanos begin, Nanos wait, Nanos work) {
    for (SessionId m : {0u, 1u}) announce(m, notice(17, round), begin);
    announce(2, notice(17, round), begin + wait);
    move_all(begin + wait + work);
    take();
  }

  Tile start_tile(Nanos now) {
    Tile tile;
    EXPECT_TRUE(aggregator_->tiles().start_tile(tile));
    aggregator_->tiles().pulling(tile, now);
    return tile;
  }
};

TEST_F(StallsTest, JobWithoutOperationsIsIdle) {
  EXPECT_TRUE(health(kForever).stalls.empty());
  run(0, 0, 10, 10);
  const Health after = health(kForever);
  EXPECT_TRUE(after.stalls.empty());
  EXPECT_FALSE(after.failure);
}

TEST_F(StallsTest, NamesTheRankThatHasNotAnnouncedAndItsLatestOperation) {
  run(4, 0, 10, 10);
  announce(0, notice(17, 5), kSecond);
  announce(2, notice(17, 5), kSecond + 7);
  EXPECT_TRUE(health(kSecond + kShortestStall).stalls.empty());
  const Health late = health(kSecond + kLater);
  ASSERT_EQ(late.stalls.size(), 1u);
  const Stall& stall = late.stalls[0];
  EXPECT_EQ(stall.cause, Cause::kNotAnnounced);
  EXPECT_EQ(stall.tag, 17u);
  EXPECT_EQ(stall.round, 5u);
  EXPECT_EQ(stall.since, kSecond);
  EXPECT_EQ(stall.ranks, (Ranks{1}));
  EXPECT_TRUE(stall.has_last);
  EXPECT_EQ(stall.last_round, 4u);
  EXPECT_EQ(stall.last_notice, 0);
}

TEST_F(StallsTest, RanksWithoutASessionHaveACauseOfTheirOwn) {
  aggregator_->add_job(1, JobSpec{.epoch = 7, .ranks = 4, .weight = 1, .credit = kCredit});
  for (std::uint16_t rank : {1, 3}) aggregator_->join(1, rank, 10 + rank);
  announce(11, notice(17), 0);
  const Health late = aggregator_->health(1, kLater, {});
  ASSERT_EQ(late.stalls.size(), 2u);
  EXPECT_EQ(late.stalls[0].cause, Cause::kNotJoined);
  EXPECT_EQ(late.stalls[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(late.stalls[1].cause, Cause::kNotAnnounced);
  EXPECT_EQ(late.stalls[1].ranks, (Ranks{3}));
  EXPECT_FALSE(late.stalls[1].has_last);
}

TEST_F(StallsTest, JobWhoseRanksUsuallyWaitLongIsNotStuckEarly) {
  Nanos now = 0;
  for (std::uint32_t round = 0; round < 8; ++round, now += 2 * kSecond) run(round, now, kSecond, 1);
  announce(0, notice(17, 8), now);
  EXPECT_TRUE(health(now + 10 * kSecond).stalls.empty());
  EXPECT_FALSE(health(now + 10 * kSecond + 1).stalls.empty());
}

TEST_F(StallsTest, OneLongWaitDoesNotMakeLaterOnesUsual) {
  run(0, 0, 60 * kSecond, 1);
  Nanos now = 100 * kSecond;
  for (std::uint32_t round = 1; round < 9; ++round, now += kSecond) run(round, now, 10, 10);
  announce(0, notice(17, 9), now);
  EXPECT_FALSE(health(now + kLater).stalls.empty());
}

TEST_F(StallsTest, NamesTheRanksWhoseBytesDoNotCome) {
  for (SessionId m : {0u, 1u, 2u}) announce(m, notice(17), 0);
  EXPECT_TRUE(health(kLater, {1}).stalls.empty()) << "it waits for its turn, and for no rank";
  const Tile tile = start_tile(kSecond);
  EXPECT_TRUE(health(kSecond + kShortestStall, {1}).stalls.empty());
  const Health late = health(kSecond + kLater, {1, 1});
  ASSERT_EQ(late.stalls.size(), 1u);
  EXPECT_EQ(late.stalls[0].cause, Cause::kBytes);
  EXPECT_EQ(late.stalls[0].ranks, (Ranks{1}));
  EXPECT_EQ(late.stalls[0].since, kSecond);
  EXPECT_TRUE(health(kSecond + kLater, {}).stalls.empty());
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 4 * kSecond);
  EXPECT_TRUE(health(kForever).stalls.empty());
}

TEST_F(StallsTest, OperationThatUsuallyTakesLongIsNotStuckEarly) {
  Nanos now = 0;
  for (std::uint32_t round = 0; round < 8; ++round, now += 10 * kSecond)
    run(round, now, 1, 9 * kSecond);
  for (SessionId m : {0u, 1u, 2u}) announce(m, notice(17, 8), now);
  start_tile(now);
  EXPECT_TRUE(health(now + 9 * kSecond, {1}).stalls.empty());
  EXPECT_FALSE(health(now + 9 * kSecond + 1, {1}).stalls.empty());
}

TEST_F(StallsTest, TheOldestOperationIsTheCause) {
  for (SessionId m : {0u, 1u, 2u}) announce(m, notice(17), 0);
  start_tile(0);
  announce(0, notice(18), 10);  // ranks 1 and 2 wait for tag 17
  const Health late = health(3 * kSecond, {2});
  ASSERT_EQ(late.stalls.size(), 1u);
  EXPECT_EQ(late.stalls[0].tag, 17u);
  EXPECT_EQ(late.stalls[0].ranks, (Ranks{2}));
}

TEST_F(StallsTest, AFailureIsReportedUntilALaterOperationSucceeds) {
  announce(0, notice(17), 5);
  announce(1, notice(17, 0, 9'999), 6);
  announce(2, notice(17), 7);
  announce(0, notice(18), 8);
  announce(1, notice(18, 0, 1), 9);
  const Health failed = health(10);
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->verdict.status, Status::kMismatch);
  EXPECT_EQ(failed.failure->key.tag, 17u) << "the first one";
  EXPECT_EQ(failed.failure->verdict.culprit, 1);
  EXPECT_EQ(failed.failure->completed, 6);
  run(1, 20, 1, 1);
  const Health good = health(30);
  EXPECT_FALSE(good.failure);
  EXPECT_EQ(good.last_success, 20);
}

TEST_F(StallsTest, AJobThatEndsInGoodOrderHasNoFailure) {
  run(0, 0, 1, 1);
  for (std::uint16_t rank : {0, 1, 2}) aggregator_->gone(0, rank, Status::kPeerLeft, 10);
  EXPECT_FALSE(health(20).failure);
}

TEST_F(StallsTest, ALossIsReportedWhenARankAnnouncesAfterIt) {
  aggregator_->gone(0, 1, Status::kPeerLost, 10);
  EXPECT_FALSE(health(20).failure);
  announce(0, notice(17), 30);
  announce(2, notice(17), 31);
  const Health failed = health(40);
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->verdict.status, Status::kPeerLost);
  EXPECT_EQ(failed.failure->verdict.culprit, 1);
  EXPECT_EQ(failed.failure->completed, 30);
  EXPECT_EQ(aggregator_->inspect().latest(0).size(), 1u) << "once";
}

class VertexStallsTest : public VertexTest {
 protected:
  Health health(Nanos now, const std::vector<SessionId>& awaited = {}) {
    return aggregator_->health(0, now, [&](PoolIndex) { return awaited; });
  }
};

TEST_F(VertexStallsTest, NamesTheRanksBelowAChildNodeThatHasNotAnnounced) {
  make(true);
  for (SessionId m : {0u, 1u}) announce(m, notice());
  const Health late = health(kLater);
  ASSERT_EQ(late.stalls.size(), 1u);
  EXPECT_EQ(late.stalls[0].cause, Cause::kChildNode);
  EXPECT_EQ(late.stalls[0].ranks, (Ranks{2, 3}));
}

TEST_F(VertexStallsTest, NamesTheChildNodeWhosePartialSumsOrResultsAreAwaited) {
  make(true);
  announce_all();
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  aggregator_->tiles().pulling(tile, 0);
  const Health late = health(kLater, {kChildNode});
  ASSERT_EQ(late.stalls.size(), 1u);
  EXPECT_EQ(late.stalls[0].cause, Cause::kChildNode);
  EXPECT_TRUE(late.stalls[0].ranks.empty());
}

TEST_F(VertexStallsTest, WaitsForTheParentOnlyWhileNoOperationGoesOn) {
  make(false);
  announce_all(1);
  const Health late = health(kLater);
  ASSERT_EQ(late.stalls.size(), 1u);
  EXPECT_EQ(late.stalls[0].cause, Cause::kParentNode);
  announce(0, notice(2), kSecond);
  EXPECT_TRUE(health(kLater).stalls.empty());
}

}  // namespace
}  // namespace tally::protocol
