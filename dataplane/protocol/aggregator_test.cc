#include "tests/support/protocol/aggregator_fixture.h"

#include <algorithm>

namespace tally::protocol {
namespace {

using wire::Kind;
using wire::Notice;

TEST_F(AggregatorTest, AnOperationRunsWhenAllRanksHaveAnnounced) {
  Tile tile;
  announce(2, notice(17));
  announce(0, notice(17));
  EXPECT_FALSE(aggregator_->tiles().start_tile(tile));
  announce(1, notice(17));
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  ASSERT_EQ(tile.sources.size(), 3u);
  for (SessionId m = 0; m < 3; ++m) EXPECT_EQ(tile.sources[m].member, m) << "rank order";
  EXPECT_TRUE(take().empty()) << "a completion means placed everywhere";
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 5000);
  const auto out = take();
  ASSERT_EQ(out.size(), 3u);
  for (const Outgoing& o : out) {
    EXPECT_EQ(o.completion.status, Status::kOk);
    EXPECT_EQ(o.completion.cookie, 1700u);
    EXPECT_EQ(o.completion.elapsed_us, 5u);
    EXPECT_EQ(o.completion.epoch, 7u);
  }
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

TEST_F(AggregatorTest, RoundsOfATagAreKeptApart) {
  announce(0, notice(1, 0));
  announce(1, notice(1, 1));
  announce(2, notice(1, 1));
  announce(0, notice(1, 1));
  EXPECT_EQ(move_all(), 1);
  for (const Outgoing& o : take()) EXPECT_EQ(o.completion.round, 1u);
  EXPECT_EQ(aggregator_->inspect().operations(0), 1u);
}

TEST_F(AggregatorTest, AllRanksGetBothValuesOfAMismatch) {
  announce(0, notice(1));
  Notice other = notice(1);
  other.count = 9'999;
  announce(2, other);
  auto out = take();
  ASSERT_EQ(out.size(), 2u);
  for (const Outgoing& o : out) {
    EXPECT_EQ(o.completion.status, Status::kMismatch);
    EXPECT_EQ(o.completion.field, wire::Field::kCount);
    EXPECT_EQ(o.completion.culprit, 2);
    EXPECT_EQ(o.completion.culprit_value, 9'999u);
    EXPECT_EQ(o.completion.witness, 0);
    EXPECT_EQ(o.completion.witness_value, 10'000u);
  }
  announce(1, notice(1));  // late: the verdict is final
  out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].member, 1u);
  EXPECT_EQ(out[0].completion.status, Status::kMismatch);
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u) << "all ranks know: forgotten";
}

TEST_F(AggregatorTest, EveryFieldThatRanksMustAgreeAboutIsCompared) {
  std::uint32_t tag = 100;
  const auto differ = [&](auto&& change, wire::Field field) {
    Notice first = notice(++tag);
    first.kind = Kind::kReduce;
    Notice second = first;
    change(second);
    announce(0, first);
    announce(1, second);
    const auto out = take();
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].completion.status, Status::kMismatch);
    EXPECT_EQ(out[0].completion.field, field);
  };
  differ([](Notice& n) { n.kind = Kind::kAllReduce; }, wire::Field::kKind);
  differ([](Notice& n) { n.type = ElementType::kI32; }, wire::Field::kType);
  differ([](Notice& n) { n.operation = Operation::kMax; }, wire::Field::kOperation);
  differ([](Notice& n) { n.count += 1; }, wire::Field::kCount);
  differ([](Notice& n) { n.root = 1; }, wire::Field::kRoot);
}

TEST_F(AggregatorTest, TheDeadlineNamesWhoIsMissingAndWhereTheyAre) {
  announce(2, notice(9, 4));
  announce(1, notice(9, 4), 50);
  announce(0, notice(8, 6));
  Notice hurried = notice(17, 5);
  hurried.deadline_ms = 2;
  announce(1, hurried, 100);
  EXPECT_EQ(aggregator_->next_deadline(), 100 + 2 * kMillisecond);
  aggregator_->expire(100 + 2 * kMillisecond - 1);
  EXPECT_TRUE(take().empty());
  aggregator_->expire(100 + 2 * kMillisecond);
  const auto out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kDeadline);
  EXPECT_EQ(out[0].completion.culprit, 0);
  EXPECT_EQ(out[0].completion.missing, 2);
  EXPECT_NE(out[0].completion.flags & wire::kHasLast, 0);
  EXPECT_EQ(out[0].completion.last_tag, 8u);
  EXPECT_EQ(out[0].completion.last_round, 6u);
  EXPECT_EQ(out[0].completion.elapsed_us, 2000u);
  EXPECT_EQ(aggregator_->next_deadline(), 60 * kSecond);
}

TEST_F(AggregatorTest, TheShortestTimeoutDecides) {
  announce(0, notice(1), 0);
  Notice hurried = notice(1);
  hurried.deadline_ms = 1000;
  announce(1, hurried, 5 * kSecond);
  EXPECT_EQ(aggregator_->next_deadline(), 6 * kSecond);
  aggregator_->expire(6 * kSecond);
  EXPECT_EQ(take().size(), 2u);
}

TEST_F(AggregatorTest, ALostRankFailsWhatItTakesPartIn) {
  announce(0, notice(1));
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(2));
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  aggregator_->gone(1, Status::kPeerLost, 0);
  auto out = take();
  ASSERT_EQ(out.size(), 1u) << "tag 2 has a tile in flight: its buffers are not free";
  EXPECT_EQ(out[0].completion.tag, 1u);
  EXPECT_EQ(out[0].completion.status, Status::kPeerLost);
  EXPECT_EQ(out[0].completion.culprit, 1);
  aggregator_->tiles().pulling(tile, 0);
  aggregator_->tiles().storing(tile, 0);
  aggregator_->tiles().stored(tile, 0);
  aggregator_->tiles().end_tile(tile, Status::kOk, kNoSession, 0);
  out = take();
  ASSERT_EQ(out.size(), 2u) << "none to the lost rank";
  for (const Outgoing& o : out) {
    EXPECT_NE(o.member, 1u);
    EXPECT_EQ(o.completion.status, Status::kPeerLost);
    EXPECT_NE(o.completion.flags & wire::kStarted, 0);
  }
  announce(0, notice(3));
  out = take();
  ASSERT_EQ(out.size(), 1u) << "and later ones fail at once";
  EXPECT_EQ(out[0].completion.status, Status::kPeerLost);
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
}

TEST_F(AggregatorTest, ShortestDeadlineCountsInAnyOrderOfNotices) {
  Notice hurried = notice(1);
  hurried.deadline_ms = 2;
  Notice patient = notice(1);
  patient.deadline_ms = 5000;
  announce(0, hurried);
  announce(1, patient, 10);
  EXPECT_EQ(aggregator_->next_deadline(), 2 * kMillisecond);
  hurried.tag = patient.tag = 2;
  announce(1, patient, 20);
  announce(0, hurried, 30);
  EXPECT_EQ(aggregator_->next_deadline(), 2 * kMillisecond);
  aggregator_->expire(2 * kMillisecond);
  EXPECT_EQ(take().size(), 2u);
  EXPECT_EQ(aggregator_->next_deadline(), 30 + 2 * kMillisecond);
}

// At the deadline the tile in flight waits for a rank's memory. The node learns which rank that is
// when it gives up the rank's connection.
TEST_F(AggregatorTest, ADeadlineWithATileInFlightNamesWhomItWaitedFor) {
  for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(2));
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  aggregator_->tiles().pulling(tile, 0);
  aggregator_->expire(3600 * kSecond);
  EXPECT_TRUE(take().empty());
  aggregator_->gone(1, Status::kPeerLost, 0);
  aggregator_->tiles().end_tile(tile, Status::kPeerLost, 1, 0);
  const auto out = take();
  ASSERT_EQ(out.size(), kRanks - 1u);
  for (const Outgoing& o : out) {
    EXPECT_EQ(o.completion.status, Status::kDeadline);
    EXPECT_EQ(o.completion.culprit, 1);
    EXPECT_EQ(o.completion.missing, 0);
  }
}

TEST_F(AggregatorTest, ARankThatGoesBeforeItJoinsBreaksTheJobToo) {
  aggregator_->add_job(1, JobSpec{.epoch = 1, .ranks = 2});
  aggregator_->join(1, 0, 10);
  Notice n = notice(1);
  n.epoch = 1;
  announce(10, n);
  aggregator_->gone(1, 1, Status::kPeerLost, 0);
  const auto out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kPeerLost);
  EXPECT_EQ(out[0].completion.culprit, 1);
  aggregator_->gone(1, 1, Status::kPeerLeft, 0);
  announce(10, n);
  EXPECT_EQ(take()[0].completion.status, Status::kPeerLost) << "the first word counts";
}

TEST_F(AggregatorTest, OtherJobsDoNotNotice) {
  aggregator_->add_job(1, JobSpec{.epoch = 1, .ranks = 1});
  aggregator_->join(1, 0, 10);
  announce(0, notice(1));
  aggregator_->gone(2, Status::kPeerLost, 0);
  take();
  Notice n = notice(1);
  n.epoch = 1;
  announce(10, n);
  EXPECT_GT(move_all(), 0);
  const auto out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].member, 10u);
  EXPECT_EQ(out[0].completion.status, Status::kOk);
}

TEST_F(AggregatorTest, ACancelIsAcknowledgedOnce) {
  announce(0, notice(1));
  Notice cancel = notice(1);
  cancel.kind = Kind::kCancel;
  announce(1, cancel);
  EXPECT_TRUE(take().empty()) << "rank 1 has not announced it";
  announce(0, cancel);
  announce(0, cancel);
  auto out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kCancelled);
  EXPECT_EQ(out[0].completion.culprit, 0);
  announce(1, notice(1));
  out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kCancelled) << "the verdict is the same for all";
}

TEST_F(AggregatorTest, ACancelBlamesTheRankThatItNames) {
  for (const std::uint16_t account : {2, 900}) {
    announce(1, notice(1, account));
    Notice cancel = notice(1, account);
    cancel.kind = Kind::kCancel;
    cancel.root = account;
    announce(1, cancel);
    const auto out = take();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].completion.culprit, account < kRanks ? account : 1);
  }
}

TEST_F(AggregatorTest, RefusesWhatCannotBe) {
  const auto refuse = [&](auto&& change, Status status) {
    Notice n = notice(1);
    change(n);
    announce(0, n);
    const auto out = take();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].completion.status, status);
    EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
  };
  refuse([](Notice& n) { n.epoch = 6; }, Status::kStaleEpoch);
  refuse([](Notice& n) { n.group = 1; }, Status::kUnsupported);
  refuse([](Notice& n) { n.part = 1; }, Status::kInvalidArgument);
  refuse([](Notice& n) { n.kind = Kind::kReduce, n.root = kRanks; }, Status::kInvalidArgument);
}

TEST_F(AggregatorTest, DuplicatesAndOverdraftsChangeNothing) {
  for (std::uint32_t tag = 0; tag < kCredit; ++tag) announce(0, notice(tag));
  announce(0, notice(99));
  announce(0, notice(3));
  auto out = take();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].completion.status, Status::kNoCredit);
  EXPECT_EQ(out[1].completion.status, Status::kNoCredit);
  for (SessionId m : {1u, 2u}) announce(m, notice(3));
  EXPECT_EQ(move_all(), 1);
  EXPECT_EQ(take().size(), 3u);
  announce(0, notice(2));
  out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kDuplicate);
}

// Nothing moves for it: the buffers have gone back.
TEST_F(AggregatorTest, ARoundThatHasEndedIsNotRunAgain) {
  for (const std::uint32_t round : {UINT32_MAX, 0u}) {  // the count wraps
    for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1, round));
    EXPECT_EQ(move_all(), 1);
    take();
  }
  for (const std::uint32_t round : {0u, UINT32_MAX}) {
    for (SessionId m = 0; m < kRanks; ++m) announce(m, notice(1, round));
    EXPECT_EQ(move_all(), 0);
    const auto out = take();
    ASSERT_EQ(out.size(), 3u);
    for (const Outgoing& o : out) EXPECT_EQ(o.completion.status, Status::kDuplicate);
    EXPECT_EQ(aggregator_->inspect().operations(0), 0u);
  }
  announce(0, notice(1, 1));
  EXPECT_EQ(aggregator_->inspect().operations(0), 1u);
}

TEST_F(AggregatorTest, ABadRegionIsTheFaultOfItsRank) {
  announce(0, notice(1));
  announce(2, notice(1), 0, Status::kBadRegion);
  const auto out = take();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].completion.status, Status::kBadRegion);
  EXPECT_EQ(out[0].completion.culprit, 2);
}

TEST_F(AggregatorTest, AVerdictOutlivesARankThatGoesAfterIt) {
  announce(0, notice(1), 0, Status::kBadRegion);
  aggregator_->gone(2, Status::kPeerLost, 0);
  take();
  announce(1, notice(1));
  const auto out = take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].completion.status, Status::kBadRegion) << "as rank 0 received it";
  EXPECT_EQ(aggregator_->inspect().operations(0), 0u) << "nobody else can come";
}

TEST_F(AggregatorTest, VerdictsForLateRanksAreBounded) {
  for (std::uint32_t tag = 0; tag < 1000; ++tag) {
    Notice n = notice(tag);
    announce(0, n);
    n.kind = Kind::kCancel;
    announce(0, n);
    take();
  }
  EXPECT_EQ(aggregator_->inspect().operations(0), kCredit);
  announce(1, notice(999));
  EXPECT_EQ(take()[0].completion.status, Status::kCancelled);
  announce(1, notice(1));
  EXPECT_TRUE(take().empty()) << "forgotten: it waits for the others, and for its deadline";
}

TEST_F(AggregatorTest, WaitingOperationsListMissingRanks) {
  announce(1, notice(17, 5), 42);
  const auto waiting = aggregator_->inspect().waiting(0);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].tag, 17u);
  EXPECT_EQ(waiting[0].missing, (std::vector<std::uint16_t>{0, 2}));
  EXPECT_EQ(waiting[0].since, 42);
}

// Rank 1 of three is left out.
class LeftOutTest : public AggregatorTest {
 protected:
  void SetUp() override {
    AggregatorConfig config;
    config.plan = even_partition(1, 1 << 20);
    aggregator_ = std::make_unique<Aggregator>(config);
    aggregator_->add_job(0, JobSpec{.epoch = 7,
                                    .ranks = kRanks,
                                    .credit = kCredit,
                                    .plan = config.plan,
                                    .vertices = {{.tree = 0, .ranks = {0, 2}}}});
    for (const std::uint16_t rank : {0, 2}) aggregator_->join(0, rank, rank);
  }
};

TEST_F(LeftOutTest, AnAverageDividesByTheRanksThatArePresent) {
  Notice n = notice(1);
  n.operation = Operation::kAverage;
  for (const SessionId rank : {0U, 2U}) announce(rank, n);
  Tile tile;
  ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
  EXPECT_EQ(tile.sources.size(), 2U);
  EXPECT_EQ(tile.divisor, 2U);
}

TEST_F(AggregatorTest, ResultsAreEagerOnlyWhereTheJobAllowsIt) {
  for (const bool eager : {true, false}) {
    reset({});
    aggregator_->remove_job(0);
    aggregator_->add_job(
        0, JobSpec{.epoch = 7, .ranks = kRanks, .eager_results = eager, .credit = kCredit});
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) aggregator_->join(0, rank, rank);
    for (SessionId rank = 0; rank < kRanks; ++rank) announce(rank, notice(1, 0, 10));
    Tile tile;
    ASSERT_TRUE(aggregator_->tiles().start_tile(tile));
    EXPECT_EQ(tile.operation_bytes, eager ? 40U : 0U);
  }
}

TEST_F(LeftOutTest, OperationsThatNeedTheRankAreRefused) {
  for (const Kind kind :
       {Kind::kBroadcast, Kind::kReduce, Kind::kReduceScatter, Kind::kAllGather}) {
    Notice n = notice(static_cast<std::uint32_t>(kind));
    n.kind = kind;
    n.root = 1;
    announce(0, n);
    const auto out = take();
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].completion.status, Status::kInvalidArgument);
  }
  Notice other = notice(100);
  other.kind = Kind::kBroadcast;
  announce(0, other);
  EXPECT_TRUE(take().empty()) << "of rank 0";
  announce(1, notice(101));
  EXPECT_TRUE(take().empty()) << "the rank has no session here";
}

}  // namespace
}  // namespace tally::protocol
