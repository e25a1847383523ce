#include "dataplane/protocol/tile_scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::protocol {
namespace {

TileScheduler roomy() {
  return TileScheduler({{.window_bytes = 1 << 30, .tiles = 1000}});
}

void add_job(TileScheduler& scheduler, JobSlot job, std::uint32_t weight,
             std::uint32_t operations) {
  scheduler.add_job(job, weight);
  scheduler.reserve(job, 0, operations);
}

TEST(TileScheduler, PriorityThenAge) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 8);
  scheduler.add(0, 0, 10, 0, 1);
  scheduler.add(0, 0, 11, 5, 3);
  scheduler.add(0, 0, 12, 5, 2);
  std::vector<Slot> order;
  while (const auto choice = scheduler.next()) {
    order.push_back(choice->operation);
    scheduler.remove(0, 0, choice->operation);
  }
  EXPECT_EQ(order, (std::vector<Slot>{12, 11, 10}));
}

TEST(TileScheduler, AnOperationKeepsItsTurnUntilItsTilesHaveStarted) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 8);
  scheduler.add(0, 0, 1, 0, 1);
  scheduler.add(0, 0, 2, 0, 2);
  for (int tile = 0; tile < 3; ++tile) {
    ASSERT_EQ(scheduler.next()->operation, 1u);
    scheduler.started(0, 0, 100);
  }
  scheduler.remove(0, 0, 1);
  EXPECT_EQ(scheduler.next()->operation, 2u);
}

TEST(TileScheduler, JobsShareByWeightInBytes) {
  TileScheduler scheduler = roomy();
  const std::uint64_t tile_bytes[] = {300, 100, 100};  // a job with large tiles gets no more
  const std::uint32_t weight[] = {3, 1, 2};
  for (JobSlot job : {0u, 1u, 2u}) {
    add_job(scheduler, job, weight[job], 1);
    scheduler.add(job, 0, job, 0, job);
  }
  std::uint64_t served[3] = {};
  for (int i = 0; i < 60'000; ++i) {
    const JobSlot job = scheduler.next()->job;
    served[job] += tile_bytes[job];
    scheduler.started(job, 0, tile_bytes[job]);
    scheduler.finished(job, 0, tile_bytes[job]);
  }
  const double unit = static_cast<double>(served[1]);
  EXPECT_NEAR(static_cast<double>(served[0]) / unit, 3, 0.01);
  EXPECT_NEAR(static_cast<double>(served[2]) / unit, 2, 0.01);
}

TEST(TileScheduler, AnIdleJobDoesNotSaveUpTime) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    scheduler.started(0, 0, 100);
    scheduler.finished(0, 0, 100);
  }
  scheduler.add(1, 0, 1, 0, 1);
  int turns[2] = {};
  for (int i = 0; i < 100; ++i) {
    const JobSlot job = scheduler.next()->job;
    ++turns[job];
    scheduler.started(job, 0, 100);
    scheduler.finished(job, 0, 100);
  }
  EXPECT_NEAR(turns[0], 50, 1);
}

TEST(TileScheduler, SharesSurviveTheWrapOfVirtualTime) {
  TileScheduler scheduler = roomy();
  add_job(scheduler, 0, 1, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  scheduler.add(1, 0, 1, 0, 1);
  int turns[2] = {};
  for (int i = 0; i < 1000; ++i) {
    const JobSlot job = scheduler.next()->job;
    ++turns[job];
    scheduler.started(job, 0, 1ULL << 48);  // the 64 bits are gone through many times
    scheduler.finished(job, 0, 1ULL << 48);
  }
  EXPECT_NEAR(turns[0], 500, 1);
}

TEST(TileScheduler, TheWindowBoundsBytesButLetsOneTileGo) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 1000}});
  add_job(scheduler, 0, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  ASSERT_TRUE(scheduler.next());
  scheduler.started(0, 0, 250);
  EXPECT_FALSE(scheduler.next());
  scheduler.finished(0, 0, 250);
  scheduler.started(0, 0, 60);
  ASSERT_TRUE(scheduler.next());
  scheduler.started(0, 0, 60);
  EXPECT_FALSE(scheduler.next());
}

TEST(TileScheduler, AJobHoldsItsShareOfSlotsOnlyWhileOthersWait) {
  TileScheduler scheduler({{.window_bytes = 1 << 30, .tiles = 8}});
  add_job(scheduler, 0, 3, 1);
  add_job(scheduler, 1, 1, 1);
  scheduler.add(0, 0, 0, 0, 0);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(scheduler.next()->job, 0u);
    scheduler.started(0, 0, 1);
  }
  scheduler.add(1, 0, 1, 0, 1);
  ASSERT_EQ(scheduler.next()->job, 1u) << "job 0 holds its 6 of 8 slots";
  scheduler.started(1, 0, 1);
  scheduler.started(1, 0, 1);
  EXPECT_FALSE(scheduler.next()) << "all slots are taken";
  scheduler.remove(1, 0, 1);
  scheduler.finished(1, 0, 1);
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

// What fills one class leaves the others their slots and their window.
TEST(TileScheduler, AFullClassKeepsNoOtherFromGoing) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 2}, {.window_bytes = 100, .tiles = 1}});
  add_job(scheduler, 0, 1, 4);
  scheduler.reserve(0, 1, 4);
  add_job(scheduler, 1, 1, 4);
  scheduler.add(0, 1, 10, 9, 1);  // the job's first by priority
  scheduler.add(0, 0, 11, 0, 2);
  ASSERT_EQ(scheduler.next()->operation, 10u);
  scheduler.started(0, 1, 1000);
  ASSERT_EQ(scheduler.next()->operation, 11u) << "of the same job";
  scheduler.started(0, 0, 10);
  scheduler.remove(0, 0, 11);
  scheduler.add(1, 0, 12, 0, 3);
  ASSERT_EQ(scheduler.next()->operation, 12u) << "of another job";
  scheduler.started(1, 0, 10);
  EXPECT_FALSE(scheduler.next());
  scheduler.finished(0, 1, 1000);
  EXPECT_EQ(scheduler.next()->operation, 10u);
}

TEST(TileScheduler, WithinAJobPriorityGoesBeforeClass) {
  TileScheduler scheduler({{.window_bytes = 100, .tiles = 2}, {.window_bytes = 100, .tiles = 2}});
  add_job(scheduler, 0, 1, 4);
  scheduler.add(0, 0, 10, 1, 1);
  scheduler.add(0, 1, 11, 2, 2);
  scheduler.add(0, 1, 12, 0, 0);
  std::vector<Slot> order;
  while (const auto choice = scheduler.next()) {
    order.push_back(choice->operation);
    scheduler.remove(0, choice->operation == 10 ? 0 : 1, choice->operation);
  }
  EXPECT_EQ(order, (std::vector<Slot>{11, 10, 12}));
}

// As many as it has slots with its children.
TEST(TileScheduler, AJobHasAtMostItsTilesOfAClass) {
  TileScheduler scheduler({{.window_bytes = 1000, .tiles = 8}, {.window_bytes = 1000, .tiles = 8}});
  add_job(scheduler, 0, 1, 4);
  scheduler.reserve(0, 1, 4, 2);
  scheduler.add(0, 1, 10, 0, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(scheduler.next());
    scheduler.started(0, 1, 1);
  }
  EXPECT_FALSE(scheduler.next());
  scheduler.finished(0, 1, 1);
  EXPECT_TRUE(scheduler.next());
}

}  // namespace
}  // namespace tally::protocol
