#include "tests/roce/target/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace tally::transport::roce::target {
namespace {

constexpr std::time_t kTime = 1'700'000'000;

// As a peer's messages arrive.
std::vector<std::byte> memory_of(const Layout& layout, std::size_t at) {
  const auto bytes = perftest_bytes(static_cast<std::uint32_t>(kTime), at + 8192);
  std::vector<std::byte> memory(8192);
  for (std::size_t i = 0; i < layout.count; ++i) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at + layout.offset(i));
    std::copy_n(from, layout.size, memory.begin() + static_cast<std::ptrdiff_t>(layout.offset(i)));
  }
  return memory;
}

TEST(RoceTargetPattern, HasTheBytesOfRand) {
  const auto bytes = perftest_bytes(42, 1000);
  std::srand(42);
  for (const std::byte byte : bytes) EXPECT_EQ(byte, static_cast<std::byte>(std::rand()));
}

TEST(RoceTargetPattern, PlacesShortMessagesInACycle) {
  const Layout one{.size = 1, .count = 100};
  EXPECT_EQ(one.offset(1), 64U);
  EXPECT_EQ(one.offset(64), 0U);
  EXPECT_EQ(one.places(), 64U);
  const Layout some{.size = 100, .count = 5};
  EXPECT_EQ(some.offset(2), 256U);
  EXPECT_EQ(some.places(), 5U);
  const Layout large{.size = 4096, .count = 5};
  EXPECT_EQ(large.offset(3), 0U);
  EXPECT_EQ(large.places(), 1U);
}

TEST(RoceTargetPattern, FindsTheTimeAndComparesAllBytes) {
  for (const std::size_t size : {1, 100, 2048, 5000}) {
    for (const std::size_t at : {0, 4096}) {
      const Layout layout{.size = size, .count = 7};
      auto memory = memory_of(layout, at);
      const std::uint64_t bytes = layout.places() * size;
      Checked checked = check(memory, layout, at, kTime - 3, kTime + 3);
      EXPECT_EQ(checked.bytes, bytes);
      EXPECT_EQ(checked.wrong, 0U) << size;
      memory[layout.offset(layout.places() - 1) + size - 1] ^= std::byte{1};
      checked = check(memory, layout, at, kTime - 3, kTime + 3);
      EXPECT_EQ(checked.wrong, 1U) << size;
      EXPECT_GT(check(memory, layout, at, kTime + 1, kTime + 3).wrong, 1U) << size;
    }
  }
}

TEST(RoceTargetPattern, CountsWhatLiesOutsideOfTheMemoryAsWrong) {
  const std::vector<std::byte> memory(100);
  const Checked checked = check(memory, {.size = 5000, .count = 1}, 0, kTime, kTime);
  EXPECT_EQ(checked.wrong, 5000U);
}

}  // namespace
}  // namespace tally::transport::roce::target
