#include "perf/measure/statistics.h"

#include <gtest/gtest.h>

#include <string_view>

#include "perf/gradients/hash.h"

namespace tally::perf {
namespace {

TEST(Statistics, PercentileIsTheNearestRank) {
  const std::vector<Nanos> sorted = {15, 20, 35, 40, 50};
  EXPECT_EQ(percentile(sorted, 0), 15);
  EXPECT_EQ(percentile(sorted, 5), 15);
  EXPECT_EQ(percentile(sorted, 30), 20);
  EXPECT_EQ(percentile(sorted, 40), 20);
  EXPECT_EQ(percentile(sorted, 50), 35);
  EXPECT_EQ(percentile(sorted, 99), 50);
  EXPECT_EQ(percentile(sorted, 100), 50);
  const std::vector<Nanos> one = {7};
  EXPECT_EQ(percentile(one, 50), 7);
}

TEST(Statistics, SummaryOfUnsortedTimes) {
  const TimeSummary summary = summarise({4000, 1000, 3000, 2000});
  EXPECT_DOUBLE_EQ(summary.min_us, 1);
  EXPECT_DOUBLE_EQ(summary.p50_us, 2);
  EXPECT_DOUBLE_EQ(summary.p99_us, 4);
  EXPECT_DOUBLE_EQ(summary.max_us, 4);
  EXPECT_DOUBLE_EQ(summary.mean_us, 2.5);
}

TEST(Statistics, TheSlowestRankCounts) {
  const std::vector<std::vector<Nanos>> times = {{1, 9, 3}, {4, 5, 2}};
  EXPECT_EQ(slowest(times), (std::vector<Nanos>{4, 9, 3}));
}

TEST(Statistics, Bandwidths) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second(1'000'000'000, 1e6), 1);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(5, 0), 0);
  EXPECT_DOUBLE_EQ(bus_factor(TALLY_ALL_REDUCE, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(TALLY_REDUCE_SCATTER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(TALLY_REDUCE, 4), 1);
}

// The vectors of the specification's reference implementation.
TEST(Hash, Xxh64) {
  const auto of = [](std::string_view text) { return xxh64(text.data(), text.size()); };
  EXPECT_EQ(of(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(of("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(of("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

TEST(Hash, CombinationKeepsTheOrder) {
  const std::uint64_t one[] = {5};
  const std::uint64_t two[] = {5, 6};
  const std::uint64_t swapped[] = {6, 5};
  EXPECT_EQ(combine_hashes(one), 5u);
  EXPECT_NE(combine_hashes(two), combine_hashes(swapped));
}

}  // namespace
}  // namespace tally::perf
