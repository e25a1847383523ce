#include "integrations/python/src/shared_pool.h"
#include "base/units.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace tally::python {
namespace {

TEST(SharedPool, BlocksAreAlignedApartAndInASealedFile) {
  SharedPool& pool = SharedPool::instance();
  auto* a = static_cast<std::byte*>(pool.allocate(kMib + 1).value());
  auto* b = static_cast<std::byte*>(pool.allocate(3 * kMib).value());
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % SharedPool::kBlockAlignment, 0u);
  EXPECT_TRUE(b >= a + kMib + 1 || a >= b + 3 * kMib);
  const auto segment = pool.find(a + kMib);
  ASSERT_TRUE(segment);
  EXPECT_GE(segment->data + segment->bytes, a + kMib + 1);
  EXPECT_NE(::ftruncate(segment->fd, 0), 0) << "nobody can cut it off";
  EXPECT_TRUE(pool.free(a));
  EXPECT_TRUE(pool.free(b));
}

TEST(SharedPool, FreesOnlyItsOwnBlocks) {
  SharedPool& pool = SharedPool::instance();
  int local = 0;
  EXPECT_FALSE(pool.free(&local));
  EXPECT_FALSE(pool.find(&local));
  auto* block = static_cast<std::byte*>(pool.allocate(kMib).value());
  EXPECT_FALSE(pool.free(block + 4096)) << "not where a block begins";
  EXPECT_TRUE(pool.free(block));
  EXPECT_FALSE(pool.free(block)) << "twice";
}

TEST(SharedPool, JoinsFreedBlocksIntoLargerOnes) {
  SharedPool& pool = SharedPool::instance();
  const std::size_t before = pool.usage().free_bytes;
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(pool.allocate(kMib).value());
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  for (void* block : blocks) EXPECT_TRUE(pool.free(block));
  const auto usage = pool.usage();
  EXPECT_GE(usage.free_bytes, before);
  void* whole = pool.allocate(60 * kMib).value();  // only if the pieces have become one again
  EXPECT_EQ(pool.usage().segments, usage.segments);
  EXPECT_TRUE(pool.free(whole));
  void* large = pool.allocate(SharedPool::kSegmentBytes + 1).value();
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(pool.usage().segments, usage.segments + 1);
  EXPECT_TRUE(pool.free(large));
}

TEST(SharedPool, AChildHasACopyOfItsOwn) {
  SharedPool& pool = SharedPool::instance();
  auto* block = static_cast<unsigned char*>(pool.allocate(kMib).value());
  std::memset(block, 1, kMib);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = block[0] == 1 && block[kMib - 1] == 1;
    std::memset(block, 2, kMib);
    ::_exit(same && block[5] == 2 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[0], 1);
  EXPECT_TRUE(pool.free(block));
}

TEST(SharedPool, ManyThreads) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      SharedPool& pool = SharedPool::instance();
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        auto* block = static_cast<unsigned char*>(pool.allocate(1 + random() % (4 * kMib)).value());
        ASSERT_NE(block, nullptr);
        block[0] = static_cast<unsigned char>(t);
        ASSERT_TRUE(pool.find(block));
        ASSERT_EQ(block[0], t);
        ASSERT_TRUE(pool.free(block));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tally::python
