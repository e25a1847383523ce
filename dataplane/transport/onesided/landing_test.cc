#include "dataplane/transport/onesided/landing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tally::transport::onesided {
namespace {

constexpr std::size_t kPage = LandingMemory::kAlignment;

TEST(LandingMemory, PiecesAreAlignedAndApart) {
  LandingMemory memory(8 * kPage);
  std::byte* a = memory.allocate(1);
  std::byte* b = memory.allocate(kPage + 1);
  std::byte* c = memory.allocate(kPage);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % kPage, 0u);
  EXPECT_EQ(b - a, static_cast<std::ptrdiff_t>(kPage));
  EXPECT_EQ(c - b, static_cast<std::ptrdiff_t>(2 * kPage));
}

TEST(LandingMemory, IsFullAndIsEmptyAgain) {
  LandingMemory memory(4 * kPage);
  std::byte* a = memory.allocate(3 * kPage);
  std::byte* b = memory.allocate(kPage);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(memory.allocate(1), nullptr);
  memory.release(a);
  EXPECT_EQ(memory.allocate(4 * kPage), nullptr);
  memory.release(b);
  EXPECT_TRUE(memory.empty());
  EXPECT_NE(memory.allocate(4 * kPage), nullptr);
  EXPECT_EQ(memory.allocate(1), nullptr);
}

TEST(LandingMemory, IsWhereHugePagesCanBe) {
  for (const bool hugepages : {false, true}) {
    const LandingMemory memory(4 << 20, hugepages);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.memory().data()) % (2 << 20), 0U);
    EXPECT_GE(memory.bytes(), std::size_t{4} << 20);
    EXPECT_TRUE(hugepages || !memory.on_hugepages());
  }
}

TEST(LandingMemory, NothingLargerThanItself) {
  LandingMemory memory(2 * kPage);
  EXPECT_EQ(memory.allocate(3 * kPage), nullptr);
  EXPECT_NE(memory.allocate(2 * kPage), nullptr);
}

// A read that never ends keeps its own place, and all others can be used again and again.
TEST(LandingMemory, AnOldPieceIsInNobodysWay) {
  LandingMemory memory(100 * kPage);
  const std::byte* stuck = memory.allocate(kPage);
  std::byte* before = memory.allocate(kPage);
  for (int i = 0; i < 1000; ++i) {
    std::byte* next = memory.allocate(kPage);
    ASSERT_NE(next, nullptr);
    EXPECT_LT(next - stuck, static_cast<std::ptrdiff_t>(4 * kPage)) << "the lowest places are used";
    memory.release(before);
    before = next;
  }
}

// Operations that are there already, then the widest tile: it gets all its pieces though some of
// the others end in between, because it finds the places that they leave.
TEST(LandingMemory, TheWidestTileFindsRoom) {
  constexpr std::size_t kRanks = 256, kBlock = 16 * kPage, kWindow = 64 * kBlock;
  LandingMemory memory(2 * kWindow + kRanks * kBlock);
  std::vector<std::byte*> others;
  for (std::size_t i = 0; i < kWindow / kPage; ++i) others.push_back(memory.allocate(kPage));
  for (std::size_t i = 0; i < others.size(); i += 2) memory.release(others[i]);
  for (std::size_t i = 0; i < kRanks; ++i) {
    ASSERT_NE(memory.allocate(kBlock), nullptr) << i;
    if (i % 2 == 1) memory.release(others[i]);
  }
}

// What a search from the first page on would find, whatever is in use.
TEST(LandingMemory, GivesTheLowestPlaceThatIsLongEnough) {
  for (const std::size_t pages : {1, 2, 7, 64, 100, 1000}) {
    LandingMemory memory(pages * kPage);
    const std::size_t all = memory.bytes() / kPage;  // rounded up to the machine's large pages
    std::vector<bool> used(all);
    std::vector<std::pair<std::size_t, std::size_t>> pieces;
    std::mt19937 random(static_cast<unsigned>(pages));
    for (int i = 0; i < 3000; ++i) {
      const std::size_t length = 1 + random() % (i % 10 == 0 ? all : 1 + all / 10);
      std::size_t begin = 0;
      for (std::size_t end = 0; end < all && end - begin < length; ++end) {
        if (used[end]) begin = end + 1;
      }
      const bool fits = begin + length <= all;
      const std::byte* data = memory.allocate(length * kPage);
      ASSERT_EQ(data, fits ? memory.memory().data() + begin * kPage : nullptr)
          << length << " of " << pages << " pages, step " << i;
      if (fits) {
        std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(begin), length, true);
        pieces.emplace_back(begin, length);
      }
      if (pieces.empty() || random() % 2 == 0) continue;
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const auto [first, count] = pieces.back();
      pieces.pop_back();
      memory.release(memory.memory().data() + first * kPage);
      std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(first), count, false);
    }
    for (const auto& [first, count] : pieces) {
      memory.release(memory.memory().data() + first * kPage);
    }
    EXPECT_TRUE(memory.empty());
    EXPECT_NE(memory.allocate(memory.bytes()), nullptr);
  }
}

TEST(LandingMemory, PiecesInUseNeverOverlap) {
  constexpr std::size_t kPages = 64;
  LandingMemory memory(kPages * kPage);
  struct Used {
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Used> used;
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % (8 * kPage);
    if (std::byte* data = memory.allocate(bytes)) {
      for (const Used& other : used) {
        EXPECT_TRUE(data + bytes <= other.data || other.data + other.bytes <= data);
      }
      used.push_back({data, bytes});
    }
    if (!used.empty() && random() % 2 == 0) {
      const std::size_t index = random() % used.size();
      memory.release(used[index].data);
      used.erase(used.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
}

}  // namespace
}  // namespace tally::transport::onesided
