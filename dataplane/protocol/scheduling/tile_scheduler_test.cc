#include "dataplane/protocol/scheduling/tile_scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::protocol {
namespace {

TileScheduler roomy() {
  return TileScheduler({{.window_bytes = 1 << 30, .tiles = 1000}});
}

void add_job(TileScheduler& scheduler, JobId job, std::uint32_t weight, std::uint32_t operations) {
  scheduler.add_job(job, {.weight = weight});
  scheduler.reserve(job, 0, operations);
}

void start(TileScheduler& scheduler, JobId job, TileClass cls, std::uint64_t bytes) {
  scheduler.started(job, cls);
  scheduler.pulling(job, cls, bytes);
}

TEST(TileScheduler, PriorityThenAge) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 8);
  scheduler.add(0, 0, 10, 0, 1);
  scheduler.add(0, 0, 11, 5, 3);
  scheduler.add(0, 0, 12, 5, 2);
  std::vector<PoolIndex> order;
  while (const auto choice = scheduler.next()) {
    order.push_back(choice->operation);
    scheduler.remove(0, 0, choice->operation);
  }
  EXPECT_EQ(order, (std::vector<PoolIndex>{12, 11, 10}));
}

TEST(TileScheduler, AnOperationKeepsItsTurnUntilItsTilesHaveStarted) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 8);
  scheduler.add(0, 0, 1, 0, 1);
  scheduler.add(0, 0, 2, 0, 2);
  for (int tile = 0; tile < 3; ++tile) {
    ASSERT_EQ(scheduler.next()->operation, 1u);
    start(scheduler, 0, 0, 100);
  }
  scheduler.remove(0, 0, 1);
  EXPECT_EQ(scheduler.next()->operation, 2u);
}

TEST(TileScheduler, JobsShareByWeightInBytes) {
  TileScheduler scheduler = roomy();
  const std::uint64_t tile_bytes[] = {300, 100, 100};  // a job with large tiles gets no more
  const std::uint32_t weight[] = {3, 1, 2};
  for (JobId job : {0u, 1u, 2u}) {
    add_job(scheduler, job, weight[job], 1);
    scheduler.add(job, 0, job, 0, job);
  }
  std::uint64_t served[3] = {};
  for (int i = 0; i < 60'000; ++i) {
    const JobId job = scheduler.next()->job;
    served[job] += tile_bytes[job];
    start(scheduler, job, 0, tile_bytes[job]);
    scheduler.pulled(job, 0, tile_bytes[job], 0);
    scheduler.finished(job, 0);
  }
  const double unit = static_cast<double>(served[1]);
  EXPECT_NEAR(static_cast<double>(served[0]) / unit, 3, 0.01);
  EXPECT_NEAR(static_cast<double>(served[2]) / unit, 2, 0.01);
}

class IdleJob : public ::testing::TestWithParam<OwnerId> {};

TEST_P(IdleJob, DoesNotSaveUpTime) {
  TileScheduler scheduler = roomy();
  for (const JobId job : {0, 1}) {
    scheduler.add_job(job, {.owner = GetParam()});
    scheduler.reserve(job, 0, 1);
  }
  scheduler.add(0, 0, 0, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    start(scheduler, 0, 0, 100);
    scheduler.pulled(0, 0, 100, 0);
    scheduler.finished(0, 0);
  }
  scheduler.add(1, 0, 1, 0, 1);
  int turns[2] = {};
  for (int i = 0; i < 100; ++i) {
    const JobId job = scheduler.next()->job;
    ++turns[job];
    start(scheduler, job, 0, 100);
    scheduler.pulled(job, 0, 100, 0);
    scheduler.finished(job, 0);
  }
  EXPECT_NEAR(turns[0], 50, 1);
}

INSTANTIATE_TEST_SUITE_P(WithoutAnOwnerAndWithOneOwner, IdleJob, ::testing::Values(kNoOwner, 7));

TEST(TileScheduler, SharesSurviveTheWrapOfVirtualTime) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  scheduler.add(1, 0, 1, 0, 1);
  int turns[2] = {};
  for (int i = 0; i < 1000; ++i) {
    const JobId job = scheduler.next()->job;
    ++turns[job];
    start(scheduler, job, 0, 1ULL << 48);  // the 64 bits are gone through many times
    scheduler.pulled(job, 0, 1ULL << 48, 0);
    scheduler.finished(job, 0);
  }
  EXPECT_NEAR(turns[0], 500, 1);
}

TEST(TileScheduler, TheWindowBoundsBytesButLetsOneTileGo) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 1000}});
  add_job(scheduler, 0, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  ASSERT_TRUE(scheduler.next());
  start(scheduler, 0, 0, 250);
  EXPECT_FALSE(scheduler.next());
  scheduler.pulled(0, 0, 250, 0);
  start(scheduler, 0, 0, 60);
  ASSERT_TRUE(scheduler.next());
  start(scheduler, 0, 0, 60);
  EXPECT_FALSE(scheduler.next());
}

// What is kept back keeps further tiles from starting; what is on its way does not.
TEST(TileScheduler, TheWindowBoundsPushesByAsMuchAgain) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 1000}});
  add_job(scheduler, 0, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  ASSERT_TRUE(scheduler.may_push(0, 0));
  scheduler.pushing(0, 0, 60, 0);
  ASSERT_TRUE(scheduler.may_push(0, 0));
  scheduler.pushing(0, 0, 60, 0);
  EXPECT_FALSE(scheduler.may_push(0, 0)) << "120 are being pushed";
  EXPECT_TRUE(scheduler.next()) << "pulls go on";
  scheduler.keep_back(0, 0, 60);
  EXPECT_TRUE(scheduler.next()) << "it is less than a window";
  scheduler.keep_back(0, 0, 60);
  EXPECT_FALSE(scheduler.next());
  scheduler.pushed(0, 0, 60, 0);
  ASSERT_TRUE(scheduler.may_push(0, 0));
  scheduler.let_go(0, 0, 60);
  scheduler.pushing(0, 0, 60, 0);
  EXPECT_TRUE(scheduler.next());
}

TEST(TileScheduler, ResultsOfOneJobDoNotKeepBackThoseOfAnother) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 1000}});
  add_job(scheduler, 0, 1, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(1, 0, 1, 0, 0);
  scheduler.pushing(0, 0, 1000, 0);
  scheduler.keep_back(0, 0, 1000);
  EXPECT_TRUE(scheduler.may_push(1, 0));
  EXPECT_TRUE(scheduler.next());
}

// A tile asks for one group of its inputs after the other.
TEST(TileScheduler, EveryGroupIsServiceAndInFlight) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 1000}});
  add_job(scheduler, 0, 1, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  start(scheduler, 0, 0, 40);
  for (int group = 0; group < 3; ++group) {
    scheduler.pulled(0, 0, 40, 0);
    scheduler.pulling(0, 0, 40);
  }
  ASSERT_TRUE(scheduler.next()) << "40 are in flight";
  scheduler.add(1, 0, 1, 0, 1);
  for (int tile = 0; tile < 3; ++tile) {
    ASSERT_EQ(scheduler.next()->job, 1u) << "job 0 has had 160";
    start(scheduler, 1, 0, 10);
  }
  scheduler.pulling(0, 0, 40);
  EXPECT_FALSE(scheduler.next()) << "110 are in flight";
}

TEST(TileScheduler, AJobHoldsItsShareOfTilesOnlyWhileOthersWait) {
  TileScheduler scheduler({{.window_bytes = 1 << 30, .tiles = 8}});
  add_job(scheduler, 0, 3, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(scheduler.next()->job, 0u);
    start(scheduler, 0, 0, 1);
  }
  scheduler.add(1, 0, 1, 0, 1);
  ASSERT_EQ(scheduler.next()->job, 1u) << "job 0 has its 6 of 8 tiles";
  start(scheduler, 1, 0, 1);
  start(scheduler, 1, 0, 1);
  EXPECT_FALSE(scheduler.next()) << "all 8 are in flight";
  scheduler.remove(1, 0, 1);
  scheduler.finished(1, 0);
  EXPECT_EQ(scheduler.next()->job, 0u) << "nobody else waits any more";
}

TEST(TileScheduler, ARemovedJobLeavesNothingBehind) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 3, 1, 4);
  scheduler.add(3, 0, 1, 0, 0);
  scheduler.add(3, 0, 2, 0, 1);
  scheduler.remove(3, 0, 2);
  scheduler.remove(3, 0, 99);
  scheduler.remove_job(3);
  EXPECT_FALSE(scheduler.next());
}

// What fills one class leaves the others their tiles and their window.
TEST(TileScheduler, AFullClassKeepsNoOtherFromGoing) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 2}, {.window_bytes = 100, .tiles = 1}});
  add_job(scheduler, 0, 1, 4);
  scheduler.reserve(0, 1, 4);
  add_job(scheduler, 1, 1, 4);
  scheduler.add(0, 1, 10, 9, 1);  // the job's first by priority
  scheduler.add(0, 0, 11, 0, 2);
  ASSERT_EQ(scheduler.next()->operation, 10u);
  start(scheduler, 0, 1, 1000);
  ASSERT_EQ(scheduler.next()->operation, 11u) << "of the same job";
  start(scheduler, 0, 0, 10);
  scheduler.remove(0, 0, 11);
  scheduler.add(1, 0, 12, 0, 3);
  ASSERT_EQ(scheduler.next()->operation, 12u) << "of another job";
  start(scheduler, 1, 0, 10);
  EXPECT_FALSE(scheduler.next());
  scheduler.pulled(0, 1, 1000, 0);
  scheduler.finished(0, 1);
  EXPECT_EQ(scheduler.next()->operation, 10u);
}

TEST(TileScheduler, WithinAJobPriorityGoesBeforeClass) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 2}, {.window_bytes = 100, .tiles = 2}});
  add_job(scheduler, 0, 1, 4);
  scheduler.add(0, 0, 10, 1, 1);
  scheduler.add(0, 1, 11, 2, 2);
  scheduler.add(0, 1, 12, 0, 0);
  std::vector<PoolIndex> order;
  while (const auto choice = scheduler.next()) {
    order.push_back(choice->operation);
    scheduler.remove(0, choice->operation == 10 ? 0 : 1, choice->operation);
  }
  EXPECT_EQ(order, (std::vector<PoolIndex>{11, 10, 12}));
}

// As many as it has buffers with its children.
TEST(TileScheduler, AJobHasAtMostItsTilesOfAClass) {
  TileScheduler scheduler({{.window_bytes = 1000, .tiles = 8}, {.window_bytes = 1000, .tiles = 8}});
  add_job(scheduler, 0, 1, 4);
  scheduler.reserve(0, 1, 4, 2);
  scheduler.add(0, 1, 10, 0, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(scheduler.next());
    start(scheduler, 0, 1, 1);
  }
  EXPECT_FALSE(scheduler.next());
  scheduler.pulled(0, 1, 1, 0);
  scheduler.finished(0, 1);
  EXPECT_TRUE(scheduler.next());
}

// Three users: one with twenty jobs, one with a single job, one whose job counts by itself.
TEST(TileScheduler, OwnersShareHoweverManyJobsTheyHave) {
  TileScheduler scheduler = roomy();
  constexpr OwnerId kMany = 7;
  constexpr OwnerId kOne = 3;
  std::vector<std::uint64_t> served(22);
  for (JobId job = 0; job < served.size(); ++job) {
    TileScheduler::JobShare share{.weight = 1 + job % 2, .owner = kMany};
    if (job == 20) share = {.weight = 1, .owner = kOne};
    if (job == 21) share = {.weight = 2};
    scheduler.add_job(job, share);
    scheduler.reserve(job, 0, 1);
    scheduler.add(job, 0, job, 0, job);
  }
  for (int i = 0; i < 40'000; ++i) {
    const JobId job = scheduler.next()->job;
    served[job] += 100;
    start(scheduler, job, 0, 100);
    scheduler.pulled(job, 0, 100, 0);
    scheduler.finished(job, 0);
  }
  double many = 0;
  for (JobId job = 0; job < 20; ++job) {
    many += static_cast<double>(served[job]);
    const double of_one = 1'000'000.0 / 30;  // a weight of 30 shares a quarter of 4,000,000
    EXPECT_NEAR(static_cast<double>(served[job]), of_one * (1 + job % 2), of_one * 0.02) << job;
  }
  EXPECT_NEAR(many, 1'000'000, 1000);
  EXPECT_NEAR(static_cast<double>(served[20]), 1'000'000, 1000);
  EXPECT_NEAR(static_cast<double>(served[21]), 2'000'000, 1000);
}

TEST(TileScheduler, AnOwnerHoldsItsShareOfTilesOnlyWhileOthersWait) {
  TileScheduler scheduler({{.window_bytes = 1 << 30, .tiles = 12}});
  const auto hold = [&](JobId job) {
    int tiles = 0;
    for (auto next = scheduler.next(); next && next->job == job; next = scheduler.next()) {
      scheduler.started(job, 0);
      ++tiles;
    }
    return tiles;
  };
  for (const JobId job : {0u, 1u, 2u}) {
    scheduler.add_job(job, {.owner = job == 2 ? 1u : 0u});
    scheduler.reserve(job, 0, 1);
  }
  scheduler.add(0, 0, 0, 0, 0);
  EXPECT_EQ(hold(0), 12);
  scheduler.add(1, 0, 1, 0, 1);
  scheduler.add(2, 0, 2, 0, 2);
  for (int i = 0; i < 12; ++i) scheduler.finished(0, 0);
  int tiles[3] = {};
  while (const auto next = scheduler.next()) {
    scheduler.started(next->job, 0);
    ++tiles[next->job];
  }
  EXPECT_EQ(tiles[0], 3);
  EXPECT_EQ(tiles[1], 3);
  EXPECT_EQ(tiles[2], 6);
}

}  // namespace
}  // namespace tally::protocol
