#include "dataplane/transport/region_table.h"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <random>
#include <string>

#include "tests/support/failing_new.h"

namespace tally::transport {
namespace {

using Table = RegionTable<std::uint64_t>;
constexpr std::uint32_t kMost = 1U << 20;  // region numbers on the wire

TEST(RegionTable, HasWhatItWasGiven) {
  Table table;
  EXPECT_EQ(table.find(1), nullptr);
  table.set(1, 11);
  table.set(kMost, 12);
  table.set(1, 13);
  ASSERT_NE(table.find(1), nullptr);
  EXPECT_EQ(*table.find(1), 13u);
  EXPECT_EQ(*table.find(kMost), 12u);
  EXPECT_EQ(table.size(), 2u);
  for (const std::uint32_t other : {0u, 2u, kMost - 1, UINT32_MAX}) {
    EXPECT_EQ(table.find(other), nullptr) << other;
  }
  table.erase(1);
  table.erase(1);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(*table.find(kMost), 12u);
  EXPECT_EQ(table.size(), 1u);
}

TEST(RegionTable, MemoryFollowsHowManyThereAreNotTheirNumbers) {
  Table table;
  table.set(kMost, 1);
  EXPECT_LE(table.bytes(), 64u);
  constexpr std::uint32_t kMany = 8192, kStride = kMost / kMany;
  for (std::uint32_t i = 1; i <= kMany; ++i) table.set(i * kStride, i);
  EXPECT_EQ(table.size(), kMany);
  constexpr std::size_t kEach = sizeof(std::uint32_t) + sizeof(std::uint64_t);
  EXPECT_LE(table.bytes(), 4 * kMany * kEach);
  for (std::uint32_t i = 1; i <= kMany; ++i) ASSERT_EQ(*table.find(i * kStride), i);
  for (std::uint32_t i = 2; i <= kMany; ++i) table.erase(i * kStride);
  EXPECT_EQ(*table.find(kStride), 1u);
  EXPECT_LE(table.bytes(), 8 * kEach) << "what has gone leaves no memory behind";
}

// The fifth entry of one bucket moves the others until it gives up, and then needs a larger table.
TEST(RegionTable, KeepsItsEntriesWhenMemoryRunsOut) {
  std::size_t failures = 0;
  for (std::size_t n = 1;; ++n) {
    Table table;
    for (std::uint32_t number = 1; number <= 4; ++number) table.set(number, 10 * number);
    tally::testing::fail_allocation(n);
    try {
      table.set(5, 50);
    } catch (const std::bad_alloc&) {
      ++failures;
      ASSERT_EQ(table.size(), 4u) << "allocation " << n;
      for (std::uint32_t number = 1; number <= 4; ++number) {
        ASSERT_NE(table.find(number), nullptr) << "allocation " << n << ", number " << number;
        EXPECT_EQ(*table.find(number), 10 * number);
      }
      continue;
    }
    tally::testing::fail_allocation(0);
    EXPECT_EQ(table.size(), 5u);
    break;
  }
  EXPECT_GE(failures, 3u) << "the copy, the numbers and the values";
}

// As std::map does, whatever the order: numbers in a row, far apart, and drawn from few.
TEST(RegionTable, DoesWhatAMapDoes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand random(seed);
  for (const std::uint32_t most : {8u, 300u, kMost}) {
    Table table;
    std::map<std::uint32_t, std::uint64_t> model;
    for (int step = 0; step < 20'000; ++step) {
      const auto number = static_cast<std::uint32_t>(1 + random() % most);
      if (random() % 3 == 0) {
        table.erase(number);
        model.erase(number);
      } else {
        table.set(number, model[number] = random());
      }
      const auto asked = static_cast<std::uint32_t>(random() % (most + 1));
      const auto known = model.find(asked);
      const std::uint64_t* found = table.find(asked);
      ASSERT_EQ(found != nullptr, known != model.end()) << asked;
      if (found == nullptr) continue;
      ASSERT_EQ(*found, known->second) << asked;
    }
    EXPECT_EQ(table.size(), model.size());
    for (const auto& [number, value] : model) ASSERT_EQ(*table.find(number), value);
  }
}

}  // namespace
}  // namespace tally::transport
