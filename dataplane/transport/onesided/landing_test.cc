#include "dataplane/transport/onesided/landing.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace tally::transport::onesided {
namespace {

constexpr std::size_t kPage = LandingRing::kAlignment;

TEST(LandingRing, BlocksAreAlignedAndApart) {
  LandingRing ring(8 * kPage, 8 * kPage);
  const auto a = ring.allocate(1), b = ring.allocate(kPage + 1), c = ring.allocate(kPage);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a->data) % kPage, 0u);
  EXPECT_EQ(b->data - a->data, static_cast<std::ptrdiff_t>(kPage));
  EXPECT_EQ(c->data - b->data, static_cast<std::ptrdiff_t>(2 * kPage));
}

TEST(LandingRing, IsFullAndIsEmptyAgain) {
  LandingRing ring(4 * kPage, 4 * kPage);
  const auto a = ring.allocate(3 * kPage), b = ring.allocate(kPage);
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(ring.allocate(1));
  ring.release(b->number);  // the older one is still there: no room before it
  EXPECT_FALSE(ring.allocate(2 * kPage));
  ring.release(a->number);
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.allocate(4 * kPage));
  EXPECT_FALSE(ring.allocate(1));
}

TEST(LandingRing, NothingLargerThanItself) {
  LandingRing ring(2 * kPage, 2 * kPage);
  EXPECT_FALSE(ring.allocate(3 * kPage));
  EXPECT_TRUE(ring.allocate(2 * kPage));
}

// While little is in use, little memory is touched.
TEST(LandingRing, StaysWithinTheUsualPart) {
  LandingRing ring(100 * kPage, 4 * kPage);
  const auto first = ring.allocate(kPage);
  ASSERT_TRUE(first);
  auto before = *first;
  for (int i = 0; i < 1000; ++i) {
    const auto next = ring.allocate(kPage);
    ASSERT_TRUE(next);
    EXPECT_LT(next->data - first->data, static_cast<std::ptrdiff_t>(4 * kPage));
    ring.release(before.number);
    before = *next;
  }
  std::deque<LandingRing::Block> many;  // and all of it when it is needed
  for (int i = 0; i < 90; ++i) {
    const auto next = ring.allocate(kPage);
    ASSERT_TRUE(next) << i;
    many.push_back(*next);
  }
}

TEST(LandingRing, BlocksInUseNeverOverlap) {
  constexpr std::size_t kPages = 64;
  LandingRing ring(kPages * kPage, 16 * kPage);
  struct Used {
    LandingRing::Block block;
    std::size_t bytes;
  };
  std::vector<Used> used;
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % (8 * kPage);
    if (const auto block = ring.allocate(bytes)) {
      for (const Used& other : used) {
        EXPECT_TRUE(block->data + bytes <= other.block.data ||
                    other.block.data + other.bytes <= block->data);
      }
      used.push_back({*block, bytes});
    }
    if (!used.empty() && random() % 2 == 0) {
      const std::size_t index = random() % std::min<std::size_t>(used.size(), 3);
      ring.release(used[index].block.number);
      used.erase(used.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
}

}  // namespace
}  // namespace tally::transport::onesided
