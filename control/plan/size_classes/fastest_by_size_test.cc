#include "control/plan/size_classes/fastest_by_size.h"

#include <gtest/gtest.h>

#include <random>

namespace tally::plan {
namespace {

constexpr PackingTime kStars{4e-9, 1, 1e-9, 1e-9};
constexpr PackingTime kTrees{1.5e-9, 7, 7e-9, 7e-9};

// 2.5e-9 s per byte pay for 6 hops more, and 6e-9 s per byte of a chunk.
TEST(FastestBySize, BreaksEvenWhereLessTimePerBytePaysForALongerFill) {
  const PackingTime packings[] = {kStars, kTrees};
  const auto ranges = fastest_by_size(packings, {262144, 5e-6});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].packing, 0U);
  EXPECT_EQ(ranges[0].max_bytes, 641145U);  // 6 (262144e-9 + 5e-6) / 2.5e-9
  EXPECT_EQ(ranges[1].packing, 1U);
  EXPECT_FALSE(ranges[1].max_bytes.has_value());
}

// Below a chunk the whole operation fills the pipeline: (4e-9 + 1e-12) M + 5e-6 on one side, and
// (1.5e-9 + 7e-12) M + 35e-6 on the other.
TEST(FastestBySize, BreaksEvenBelowAChunkToo) {
  const PackingTime packings[] = {{4e-9, 1, 1e-12, 1e-12}, {1.5e-9, 7, 7e-12, 7e-12}};
  const auto ranges = fastest_by_size(packings, {262144, 5e-6});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].max_bytes, 12028U);  // 30e-6 / 2.494e-9
}

TEST(FastestBySize, AHigherLatencyPutsTheBreakEvenHigher) {
  const PackingTime packings[] = {kStars, kTrees};
  std::uint64_t before = 0;
  for (const double hop : {0.0, 1e-6, 1e-5, 1e-4}) {
    const auto ranges = fastest_by_size(packings, {65536, hop});
    ASSERT_EQ(ranges.size(), 2U) << hop;
    EXPECT_GT(*ranges[0].max_bytes, before);
    before = *ranges[0].max_bytes;
  }
}

TEST(FastestBySize, APackingThatIsNeverFastestHasNoRange) {
  const PackingTime packings[] = {kStars, {4e-9, 3, 1e-9, 1e-9}, kTrees};
  const auto ranges = fastest_by_size(packings, {});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[1].packing, 2U);
  const PackingTime alike[] = {kTrees, kTrees};
  EXPECT_EQ(fastest_by_size(alike, {}).size(), 1U);
  EXPECT_EQ(fastest_by_size(alike, {}).front().packing, 0U) << "the first of equal ones";
}

TEST(FastestBySize, APackingStartsAtItsSmallestOperation) {
  PackingTime trees = kTrees;
  trees.smallest = 1'000'000;
  const PackingTime packings[] = {kStars, trees};
  const auto ranges = fastest_by_size(packings, {262144, 5e-6});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].max_bytes, 999'999U);
}

TEST(FastestBySize, APackingEndsAtItsLargestOperation) {
  PackingTime stars = kStars;
  stars.largest = 1000;
  const PackingTime packings[] = {stars, kTrees};
  const auto ranges = fastest_by_size(packings, {262144, 5e-6});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].max_bytes, 1000U);
}

TEST(FastestBySize, NoPackingIsFasterForAnySize) {
  std::mt19937_64 random(71);
  const auto number = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<PackingTime> packings;
    const std::size_t count = 1 + random() % 5;
    for (std::size_t i = 0; i < count; ++i) {
      const double fill = number(0, 1e-8);
      packings.push_back({number(0, 1e-8), static_cast<double>(random() % 8), fill,
                          fill * number(0.01, 1),
                          i == 0 || random() % 2 == 0 ? 0 : random() % (1 << 22),
                          i == 0 || random() % 2 == 0 ? UINT64_MAX : 1 + random() % (1 << 24)});
    }
    const FillModel model{32768U << random() % 5, number(0, 1e-4)};
    const auto ranges = fastest_by_size(packings, model);
    ASSERT_FALSE(ranges.back().max_bytes.has_value());
    std::uint64_t first = 1;
    for (const SizeRange& range : ranges) {
      const std::uint64_t last = range.max_bytes.value_or(std::uint64_t{1} << 40);
      ASSERT_LE(first, last);
      for (const std::uint64_t bytes : {first, first + random() % (last - first + 1), last}) {
        const auto size = static_cast<double>(bytes);
        const double seconds = seconds_of(packings[range.packing], size, model);
        EXPECT_LE(packings[range.packing].smallest, bytes);
        EXPECT_GE(packings[range.packing].largest, bytes);
        for (const PackingTime& other : packings) {
          if (other.smallest > bytes || other.largest < bytes) continue;
          EXPECT_LE(seconds, seconds_of(other, size, model) * (1 + 1e-6)) << bytes;
        }
      }
      first = last + 1;
    }
  }
}

}  // namespace
}  // namespace tally::plan
