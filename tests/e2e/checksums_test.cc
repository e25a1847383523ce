// Sessions that give checksums, against a whole node.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/block_stats.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

constexpr std::uint32_t kPair = 2;

std::uint64_t damaged(LocalNode& node) {
  std::atomic<std::uint64_t> all = 0;
  node.on_each_shard(
      [&](auto, engine::Shard& shard, auto&) { all += shard.counters().damaged.read(); });
  return all;
}

TEST(Checksums, EveryKindOfMemoryAndSize) {
  LocalNode node;
  on_each_rank(kPair, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kPair, "test", "", TALLY_CHECKSUMS_ON);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    tally_session_info info{};
    info.size = sizeof info;
    ASSERT_EQ(tally_get_info(r.session(), &info), TALLY_OK);
    EXPECT_EQ(info.checksums, 1u);
    constexpr std::uint64_t kMost = 500'001;
    tally_region* shared = nullptr;
    std::int32_t* of_library = r.alloc<std::int32_t>(kMost, &shared);
    std::vector<std::int32_t> own(kMost);
    for (const std::uint32_t flags : {0u, TALLY_REGION_STAGE}) {
      tally_memory memory{};
      memory.size = sizeof memory;
      memory.data = own.data() + 1;  // ragged edges
      memory.bytes = (kMost - 1) * 4;
      memory.flags = flags;
      tally_region* region = nullptr;
      ASSERT_EQ(tally_region_register(r.session(), &memory, &region), TALLY_OK) << r.error();
      std::uint32_t tag = flags * 100;
      for (const std::uint64_t count : {1ul, 1000ul, 4097ul, 70'001ul, kMost - 1}) {
        for (const std::uint32_t wanted : {0u, TALLY_WANT_STATS}) {
          for (std::uint64_t i = 0; i < count; ++i) {
            own[1 + i] = static_cast<std::int32_t>(i + rank);
          }
          auto op = operation(TALLY_ALL_REDUCE, TALLY_I32, ++tag, count, {region, 0}, {shared, 0});
          op.flags = wanted;
          const auto done = r.run(op);
          ASSERT_EQ(done.status, TALLY_OK) << done.message;
          for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_EQ(of_library[i], static_cast<std::int32_t>(2 * i + 1)) << i << " of " << count;
          }
        }
      }
      ASSERT_EQ(tally_region_free(r.session(), region), TALLY_OK) << r.error();
    }
  });
  EXPECT_EQ(damaged(node), 0u);
}

// The first rank changes its input after it has announced it.
TEST(Checksums, BytesThatChangeAfterThePostAreReportedWithTheirRank) {
  LocalNode node;
  std::atomic<int> steps = 0;
  on_each_rank(kPair, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kPair, "test", "", TALLY_CHECKSUMS_ON);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    tally_region* region = nullptr;
    float* data = r.alloc<float>(5000, &region);
    const auto op = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, 5000, {region, 0}, {region, 0});
    if (rank == 1) {
      while (steps.load() == 0) std::this_thread::yield();
    }
    ASSERT_EQ(tally_post(r.session(), &op), TALLY_OK) << r.error();
    if (rank == 0) {
      data[4999] = 1;
      steps = 1;
    }
    const auto done = r.wait();
    EXPECT_EQ(done.status, TALLY_DAMAGED);
    EXPECT_EQ(done.culprit, 0u);
    EXPECT_EQ(done.inputs_gone != 0, false) << "one tile: nothing was stored";
    EXPECT_NE(std::strstr(done.message, "rank 0's bytes"), nullptr) << done.message;
    const auto again = r.run(op);
    EXPECT_EQ(again.status, TALLY_OK) << again.message;
  });
  EXPECT_GT(damaged(node), 0u);
}

TEST(Checksums, AskedOfANodeThatDoesNotCheckThemAreRefusedInWords) {
  LocalNodeOptions options;
  options.checksums = false;
  LocalNode node(options);
  const Rank refused(node.address(), 0, 1, "test", "", TALLY_CHECKSUMS_ON);
  EXPECT_EQ(refused.opened(), TALLY_UNSUPPORTED);
  EXPECT_NE(refused.open_error().find("does not check checksums"), std::string::npos)
      << refused.open_error();
  const Rank without(node.address(), 0, 1, "other", "", TALLY_CHECKSUMS_OFF);
  EXPECT_EQ(without.opened(), TALLY_OK) << without.open_error();
}

}  // namespace
}  // namespace tally::testing
