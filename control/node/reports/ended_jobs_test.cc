// Which post-mortem reports a node keeps.
#include "control/node/reports/ended_jobs.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

PostMortem report(std::uint32_t epoch, Nanos taken, bool failed = false) {
  PostMortem report{.name = "bert", .epoch = epoch, .nodes = {}, .taken = taken, .shards = {}};
  report.shards.resize(2);
  report.shards[1].latest.resize(1);
  if (failed) report.shards[0].health.failure.emplace();
  return report;
}

std::vector<std::uint32_t> epochs(EndedJobs& jobs, Nanos now) {
  std::vector<std::uint32_t> epochs;
  for (const auto* entry : jobs.at(now)) epochs.push_back(entry->report.epoch);
  return epochs;
}

TEST(EndedJobs, KeepsReportsForSomeMinutes) {
  EndedJobs jobs;
  jobs.add(report(1, 0), {});
  jobs.add(report(2, kSecond), {});
  EXPECT_EQ(epochs(jobs, EndedJobs::kKeep), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(epochs(jobs, EndedJobs::kKeep + 1), (std::vector<std::uint32_t>{2}));
}

TEST(EndedJobs, JobsWithoutOperationsHaveNoReport) {
  EndedJobs jobs;
  PostMortem empty = report(1, 0);
  empty.shards[1].latest.clear();
  jobs.add(std::move(empty), {});
  EXPECT_TRUE(jobs.at(0).empty());
}

TEST(EndedJobs, ManyJobsThatEndWellDropNoFailure) {
  EndedJobs jobs;
  jobs.add(report(1, 0, true), {});
  for (std::uint32_t epoch = 2; epoch <= EndedJobs::kMost + 2; ++epoch) {
    jobs.add(report(epoch, 0), {});
  }
  EXPECT_EQ(epochs(jobs, 0), (std::vector<std::uint32_t>{1, 4, 5, 6, 7, 8, 9, 10}));
  for (std::uint32_t epoch = 11; epoch < 11 + EndedJobs::kMost; ++epoch) {
    jobs.add(report(epoch, 0, true), {});
  }
  EXPECT_EQ(epochs(jobs, 0).size(), EndedJobs::kMost);
  EXPECT_EQ(epochs(jobs, 0).front(), 11u) << "all have failed: the oldest goes";
}

TEST(EndedJobs, KeepsNoKeyOfAJob) {
  EndedJobs jobs;
  JobLock lock;
  lock.user = "uid 1000@gpu7";
  lock.key.emplace();
  jobs.add(report(1, 0), lock);
  EXPECT_FALSE(jobs.at(0)[0]->lock.key);
  EXPECT_EQ(jobs.at(0)[0]->lock.user, lock.user);
}

}  // namespace
}  // namespace tally::control
