#include "perf/measure/pace.h"

#include <gtest/gtest.h>

#include "perf/measure/statistics.h"

namespace tally::perf {
namespace {

TEST(Pace, ANumberOfIterationsAtOnce) {
  Options options;
  options.iterations = 23;
  const Pace pace(options);
  EXPECT_EQ(pace.next(0, 0), 23u);
  EXPECT_EQ(pace.next(23, kSecond), 0u);
}

TEST(Pace, InTenPartsForACeiling) {
  Options options;
  options.ceiling = true;
  for (const std::uint32_t iterations : {1u, 9u, 10u, 23u, 1000u}) {
    options.iterations = iterations;
    const Pace pace(options);
    std::uint64_t done = 0;
    std::uint32_t parts = 0;
    for (; const std::uint64_t next = pace.next(done, 0); ++parts) done += next;
    EXPECT_EQ(done, iterations);
    EXPECT_LE(parts, kPauses);
  }
}

// Iterations of one length until Pace has enough; how long that took.
Nanos time_of(double seconds, Nanos each, std::uint32_t& batches) {
  Options options;
  options.duration_s = seconds;
  const Pace pace(options);
  std::uint64_t done = 0;
  for (batches = 0; const std::uint64_t next = pace.next(done, static_cast<Nanos>(done) * each);
       ++batches) {
    done += next;
  }
  return static_cast<Nanos>(done) * each;
}

TEST(Pace, ATimeIsKeptWithFewBatches) {
  std::uint32_t batches = 0;
  for (const Nanos each : {Nanos{700}, kMicrosecond * 4, kMillisecond, 30 * kMillisecond}) {
    const Nanos time = time_of(10, each, batches);
    EXPECT_GE(time, 10 * kSecond - each);
    EXPECT_LE(time, 10 * kSecond + each);
    EXPECT_LE(batches, 15u);
  }
}

TEST(Pace, AnIterationLongerThanTheTimeIsMadeOnce) {
  std::uint32_t batches = 0;
  EXPECT_EQ(time_of(0.1, kSecond, batches), kSecond);
  EXPECT_EQ(batches, 1u);
}

TEST(Samples, OfManyEverySecondIsKept) {
  Samples few;
  for (Nanos i = 0; i < 100; ++i) few.add(i);
  EXPECT_EQ(few.take().size(), 100u);
  Samples many;
  const auto count = static_cast<Nanos>(5 * Samples::kMost + 3);
  for (Nanos i = 0; i < count; ++i) many.add(i);
  const auto times = many.take();
  EXPECT_LE(times.size(), Samples::kMost);
  EXPECT_GT(times.size(), Samples::kMost / 2);
  for (std::size_t i = 0; i < times.size(); ++i) ASSERT_EQ(times[i], static_cast<Nanos>(8 * i));
}

}  // namespace
}  // namespace tally::perf
