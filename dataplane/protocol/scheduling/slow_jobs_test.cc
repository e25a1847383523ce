// Jobs that hold the window for long while others wait: a simulated network in which each job has a
// link of its own, and time goes on in steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kWindow = 4 << 20;
constexpr std::uint64_t kLargeTile = 512 << 10;
constexpr std::uint64_t kSmallestTile = 32 << 10;
constexpr Nanos kTileEvent = 100 * kMicrosecond;

class SlowJobs : public ::testing::Test {
 protected:
  struct SimulatedJob {
    double rate = 0;  // bytes per nanosecond that its link carries
    std::uint64_t tile_bytes = kLargeTile;
    std::uint64_t least_bytes = kSmallestTile;  // of a tile: it grows with the job's ranks
    bool posts = true;
    std::deque<std::uint64_t> under_way{};  // pulls, in order
    double carried = 0;                     // of the first one
    std::uint64_t done = 0;
    bool was_slow = false;
  };

  // It always has an operation that is not at its end.
  JobId job(double megabits, std::uint64_t tile_bytes = kLargeTile, OwnerId owner = kNoOwner,
            std::uint64_t least_bytes = kSmallestTile) {
    const auto id = static_cast<JobId>(jobs_.size());
    jobs_.push_back(
        {.rate = megabits / 8000, .tile_bytes = tile_bytes, .least_bytes = least_bytes});
    scheduler_.add_job(id, {.owner = owner});
    scheduler_.reserve(id, 0, 1);
    if (id > 0) scheduler_.on_probation(id);
    scheduler_.add(id, 0, id, 0, id);
    return id;
  }

  void run(Nanos span) {
    for (const Nanos until = now_ + span; now_ < until; now_ += kTileEvent) {
      scheduler_.review(now_);
      start();
      for (JobId id = 0; id < jobs_.size(); ++id) carry(id);
    }
  }

  // What it gets done in so long.
  double rate(JobId id, Nanos span) {
    const std::uint64_t before = jobs_[id].done;
    run(span);
    return static_cast<double>(jobs_[id].done - before) / static_cast<double>(span);
  }

  void start() {
    while (const auto choice = scheduler_.next()) {
      SimulatedJob& job = jobs_[choice->job];
      const std::uint64_t allowed = scheduler_.allowance(choice->job, 0) / 4;
      const std::uint64_t bytes = std::min(job.tile_bytes, std::max(allowed, job.least_bytes));
      scheduler_.started(choice->job, 0);
      scheduler_.pulling(choice->job, 0, bytes);
      job.under_way.push_back(bytes);
    }
  }

  void carry(JobId id) {
    SimulatedJob& job = jobs_[id];
    job.was_slow |= scheduler_.is_slow(id, 0);
    job.carried += job.rate * kTileEvent;
    while (!job.under_way.empty() && job.carried >= static_cast<double>(job.under_way.front())) {
      const std::uint64_t bytes = job.under_way.front();
      job.carried -= static_cast<double>(bytes);
      job.under_way.pop_front();
      job.done += bytes;
      scheduler_.pulled(id, 0, bytes, now_);
      scheduler_.finished(id, 0);
    }
    if (job.under_way.empty()) job.carried = 0;
  }

  TileScheduler scheduler_{{{.window_bytes = kWindow, .tiles = 64}}};
  std::vector<SimulatedJob> jobs_;
  Nanos now_ = 0;
};

TEST_F(SlowJobs, AJobBesideASlowOneKeepsItsRate) {
  const JobId quick = job(1000);
  const double alone = rate(quick, kSecond);
  for (const double megabits : {1.0, 0.0, 8e-6}) {
    job(megabits);
    run(200 * kMillisecond);
    EXPECT_GT(rate(quick, kSecond), 0.98 * alone) << megabits << " Mbit/s beside it";
  }
}

TEST_F(SlowJobs, AJobThatTurnsSlowHoldsOthersUpForAMoment) {
  const JobId slow = job(1000);
  const JobId quick = job(1000);
  const double before = rate(quick, kSecond);
  jobs_[slow].rate = 0;
  EXPECT_GT(rate(quick, kSecond), 0.85 * before);
  EXPECT_GT(rate(quick, kSecond), 0.98 * before);
  EXPECT_TRUE(scheduler_.is_slow(slow, 0));
  jobs_[slow].rate = jobs_[quick].rate;
  run(500 * kMillisecond);
  EXPECT_FALSE(scheduler_.is_slow(slow, 0)) << "it is quick again";
  EXPECT_GT(rate(slow, kSecond), 0.9 * before);
}

// A network that is slow for everybody makes nobody slow, after the first moment.
TEST_F(SlowJobs, EquallySlowJobsShareTheWindow) {
  const JobId one = job(25);
  const JobId other = job(25);
  run(5 * kSecond);
  EXPECT_FALSE(scheduler_.is_slow(one, 0));
  EXPECT_FALSE(scheduler_.is_slow(other, 0));
  EXPECT_NEAR(rate(one, 10 * kSecond) / jobs_[one].rate, 1, 0.05);
  EXPECT_NEAR(rate(other, 10 * kSecond) / jobs_[other].rate, 1, 0.05);
}

TEST_F(SlowJobs, AJobAloneIsNeverSlow) {
  const JobId alone = job(1);
  run(20 * kSecond);
  EXPECT_FALSE(jobs_[alone].was_slow);
}

TEST_F(SlowJobs, ASlowJobGoesOnAtItsOwnRate) {
  job(1000);
  for (const double megabits : {1.0, 10.0, 100.0}) {
    const JobId slow = job(megabits);
    run(60 * kSecond);
    EXPECT_TRUE(jobs_[slow].was_slow);
    EXPECT_GT(rate(slow, 10 * kSecond), 0.9 * jobs_[slow].rate) << megabits << " Mbit/s";
  }
}

TEST_F(SlowJobs, AHundredSlowJobsLeaveTheWindowToTheQuickOne) {
  const JobId quick = job(1000);
  const double alone = rate(quick, kSecond);
  std::vector<JobId> slow;
  for (int i = 0; i < 100; ++i) slow.push_back(job(0.5));
  run(5 * kSecond);
  EXPECT_GT(rate(quick, 10 * kSecond), 0.95 * alone);
  for (const JobId one : slow) EXPECT_GT(jobs_[one].done, 0U) << "job " << one;
}

// Their smallest tiles fill the pool in which a new job begins.
TEST_F(SlowJobs, NewJobGetsItsTurnBesideManySlowOnesOfAnotherOwner) {
  job(10'000);
  for (int i = 0; i < 40; ++i) job(10, kLargeTile, 1, kLargeTile);
  run(kSecond);
  const JobId late = job(10'000, kLargeTile, 2, kLargeTile);
  run(kSecond);
  EXPECT_FALSE(scheduler_.is_slow(late, 0));
  EXPECT_GT(rate(late, kSecond), 0.3) << "bytes a nanosecond";
}

TEST_F(SlowJobs, AQuickJobHasTheWindowSoonAfterItCame) {
  job(1000);
  run(kSecond);
  const JobId quick = job(1000);
  run(50 * kMillisecond);
  EXPECT_FALSE(scheduler_.is_slow(quick, 0));
  EXPECT_GT(rate(quick, kSecond), 0.98 * jobs_[quick].rate);
}

// Many small tiles reach the bound of tiles, not the window.
TEST_F(SlowJobs, TilesOfASlowJobAreNoneOfTheOthers) {
  job(0, 16 << 10);
  run(20 * kMillisecond);
  const JobId quick = job(1000);
  run(200 * kMillisecond);
  EXPECT_GT(rate(quick, kSecond), 0.95 * jobs_[quick].rate);
}

// A shard that stands still learns nothing about its jobs.
TEST_F(SlowJobs, TimeInWhichTheShardIsStoppedMakesNobodySlow) {
  job(2000), job(2000), job(2000);
  run(kSecond);
  for (SimulatedJob& one : jobs_) one.was_slow = false;
  for (int i = 0; i < 20; ++i) {
    now_ += 300 * kMillisecond;
    run(30 * kMillisecond);
  }
  for (const SimulatedJob& one : jobs_) EXPECT_FALSE(one.was_slow);
}

// Whatever is slow when: the books balance, and what is in flight keeps to its bounds.
TEST_F(SlowJobs, BoundsHoldForRandomRates) {
  std::mt19937 random(23);
  for (int i = 0; i < 12; ++i) job(100);
  for (int round = 0; round < 200; ++round) {
    const double rates[] = {0, 1, 100, 1000};
    jobs_[random() % jobs_.size()].rate = rates[random() % 4] / 8000;
    jobs_[random() % jobs_.size()].tile_bytes = kLargeTile >> (random() % 5);
    run(20 * kMillisecond);
    std::uint64_t bytes = 0;
    std::size_t tiles = 0;
    for (const SimulatedJob& one : jobs_) {
      tiles += one.under_way.size();
      for (const std::uint64_t tile : one.under_way) bytes += tile;
    }
    ASSERT_LE(tiles, (1 + kSlowPool) * 64U);
    ASSERT_LE(bytes, (1 + kSlowPool) * kWindow + 2 * kLargeTile) << "landing memory has room";
  }
  for (SimulatedJob& one : jobs_) {
    one.rate = 1;
    scheduler_.remove(static_cast<JobId>(&one - jobs_.data()), 0,
                      static_cast<PoolIndex>(&one - jobs_.data()));
  }
  run(kSecond);
  for (JobId id = 0; id < jobs_.size(); ++id) {
    EXPECT_TRUE(jobs_[id].under_way.empty());
    scheduler_.remove_job(id);
  }
  jobs_.clear();
  const JobId again = job(1000);
  EXPECT_GT(rate(again, kSecond), 0.98 * jobs_[again].rate);
}

}  // namespace
}  // namespace tally::protocol
