#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

constexpr std::uint32_t kRanks = 3;

// Values whose sums are exact in f32, so that any correct order gives the same.
float value(std::uint32_t rank, std::uint64_t i) {
  return static_cast<float>((i * 2654435761u >> 7) % 1000) - 500.0f + static_cast<float>(rank);
}

TEST(Collectives, AllReduceInAndOutOfPlaceOverEverySizeClass) {
  LocalNode node;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kRanks);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    std::uint32_t tag = 0;
    for (const std::uint64_t count : {1ull, 1000ull, 4096ull, 70'001ull, 1'000'003ull}) {
      for (const bool in_place : {false, true}) {
        tally_region* region = nullptr;
        float* data = r.alloc<float>(2 * count, &region);
        for (std::uint64_t i = 0; i < count; ++i) data[i] = value(rank, i);
        const std::uint64_t out = in_place ? 0 : count;
        const auto done = r.run(operation(TALLY_ALL_REDUCE, TALLY_F32, ++tag, count, {region, 0},
                                          {region, out * sizeof(float)}));
        ASSERT_EQ(done.status, TALLY_OK) << done.message;
        for (std::uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(data[out + i], 3 * value(1, i)) << "count " << count << " at " << i;
        }
        ASSERT_EQ(tally_region_free(r.session(), region), TALLY_OK) << r.error();
      }
    }
  });
}

TEST(Collectives, EveryKindPutsTheRightBytesInTheRightPlace) {
  LocalNode node;
  constexpr std::uint64_t kCount = 100'000;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kRanks);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    tally_region* region = nullptr;
    std::int32_t* data = r.alloc<std::int32_t>(2 * kCount, &region);
    std::int32_t* out = data + kCount;
    const tally_buffer in_buffer{region, 0};
    const tally_buffer out_buffer{region, kCount * 4};
    const std::uint64_t first = kCount * rank / kRanks;
    const std::uint64_t last = kCount * (rank + 1) / kRanks;
    const auto fresh = [&] {
      for (std::uint64_t i = 0; i < kCount; ++i) {
        data[i] = static_cast<std::int32_t>(i * (rank + 1));
        out[i] = -1;
      }
    };
    const auto run = [&](tally_kind kind, std::uint32_t tag, std::uint32_t root) {
      fresh();
      tally_operation op = operation(kind, TALLY_I32, tag, kCount, in_buffer, out_buffer);
      op.root = root;
      const auto done = r.run(op);
      ASSERT_EQ(done.status, TALLY_OK) << done.message;
    };
    const auto sum = [](std::uint64_t i) { return static_cast<std::int32_t>(i * 6); };
    run(TALLY_REDUCE, 1, 2);
    for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], rank == 2 ? sum(i) : -1);
    run(TALLY_BROADCAST, 2, 1);
    for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], static_cast<std::int32_t>(i * 2));
    run(TALLY_REDUCE_SCATTER, 3, 0);
    for (std::uint64_t i = first; i < last; ++i) ASSERT_EQ(out[i - first], sum(i));
    ASSERT_EQ(out[last - first], -1);
    run(TALLY_ALL_GATHER, 4, 0);
    for (std::uint32_t owner = 0; owner < kRanks; ++owner) {
      const std::uint64_t begin = kCount * owner / kRanks;
      for (std::uint64_t i = begin; i < kCount * (owner + 1) / kRanks; ++i) {
        ASSERT_EQ(out[i], static_cast<std::int32_t>((i - begin) * (owner + 1)));
      }
    }
    tally_operation barrier = operation(TALLY_BARRIER, TALLY_F32, 5, 0, {}, {});
    ASSERT_EQ(r.run(barrier).status, TALLY_OK);
  });
}

// The second job is served by shards that the first one is not: they are told apart by their trees.
TEST(Collectives, AJobHasAFewOfTheNodesShards) {
  LocalNode node({.shards = 5});
  constexpr std::uint64_t kCount = 300'001;
  on_each_rank(4, [&](std::uint32_t thread) {
    const std::uint32_t rank = thread % 2;
    Rank r(node.address(), rank, 2, thread < 2 ? "one" : "two");
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    tally_session_info info{};
    info.size = sizeof info;
    ASSERT_EQ(tally_get_info(r.session(), &info), TALLY_OK);
    EXPECT_EQ(info.shards, 4U);
    tally_region* region = nullptr;
    float* data = r.alloc<float>(kCount, &region);
    for (std::uint32_t tag = 0; tag < 20; ++tag) {
      const std::uint64_t count = tag % 2 == 0 ? kCount : 100;
      for (std::uint64_t i = 0; i < count; ++i) data[i] = value(rank, i);
      const tally_buffer buffer{region, 0};
      const auto done = r.run(operation(TALLY_ALL_REDUCE, TALLY_F32, tag, count, buffer, buffer));
      ASSERT_EQ(done.status, TALLY_OK) << done.message;
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], value(0, i) + value(1, i));
    }
  });
  std::atomic<int> busy{0};
  node.on_each_shard([&](std::uint32_t, engine::Shard& shard, auto&) {
    busy += shard.counters().tiles.read() > 0;
  });
  EXPECT_EQ(busy, 5);
}

TEST(Collectives, TagsMayBePostedInAnyOrder) {
  LocalNode node;
  constexpr std::uint32_t kTags = 40;
  constexpr std::uint64_t kCount = 9000;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kRanks);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    tally_region* region = nullptr;
    float* data = r.alloc<float>(kTags * kCount, &region);
    std::mt19937 random(rank);
    std::vector<std::uint32_t> order(kTags);
    for (int round = 0; round < 5; ++round) {
      for (std::uint32_t tag = 0; tag < kTags; ++tag) order[tag] = tag;
      std::shuffle(order.begin(), order.end(), random);
      for (std::uint64_t i = 0; i < kTags * kCount; ++i) data[i] = value(rank, i);
      for (const std::uint32_t tag : order) {
        const tally_buffer buffer{region, tag * kCount * sizeof(float)};
        tally_operation op = operation(TALLY_ALL_REDUCE, TALLY_F32, tag, kCount, buffer, buffer);
        op.user = tag + 7;
        ASSERT_EQ(tally_post(r.session(), &op), TALLY_OK) << r.error();
      }
      for (std::uint32_t done = 0; done < kTags; ++done) {
        const auto completion = r.wait();
        ASSERT_EQ(completion.status, TALLY_OK) << completion.message;
        ASSERT_EQ(completion.user, completion.tag + 7);
        ASSERT_EQ(completion.round, static_cast<std::uint32_t>(round));
      }
      for (std::uint64_t i = 0; i < kTags * kCount; ++i) ASSERT_EQ(data[i], 3 * value(1, i));
    }
  });
}

std::uint64_t copied_bytes(Rank& rank) {
  tally_session_info info{};
  info.size = sizeof info;
  EXPECT_EQ(tally_get_info(rank.session(), &info), TALLY_OK);
  return info.copied_bytes;
}

TEST(Collectives, AdoptedAndStagedMemoryGiveTheSame) {
  LocalNode node;
  constexpr std::uint64_t kCount = 200'001;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Rank r(node.address(), rank, kRanks);
    ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
    for (const std::uint32_t flags : {0u, TALLY_REGION_STAGE}) {
      std::vector<float> memory(kCount + 2, -1.0f);
      tally_memory description{};
      description.size = sizeof description;
      description.data = memory.data() + 1;
      description.bytes = kCount * sizeof(float);
      description.flags = flags;
      tally_region* region = nullptr;
      ASSERT_EQ(tally_region_register(r.session(), &description, &region), TALLY_OK) << r.error();
      const std::uint64_t copied_before = copied_bytes(r);
      for (std::uint64_t i = 0; i < kCount; ++i) memory[1 + i] = value(rank, i);
      const auto done =
          r.run(operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0}));
      ASSERT_EQ(done.status, TALLY_OK) << done.message;
      for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(memory[1 + i], 3 * value(1, i)) << i;
      EXPECT_EQ(memory[0], -1.0f);
      EXPECT_EQ(memory[kCount + 1], -1.0f);
      ASSERT_EQ(tally_region_free(r.session(), region), TALLY_OK) << r.error();
      ASSERT_EQ(memory[kCount], 3 * value(1, kCount - 1));
      const std::uint64_t copied = copied_bytes(r) - copied_before;
      if (LocalNode::over_network()) {
        EXPECT_EQ(copied, 0u) << "any memory can be registered";
      } else if (flags == 0) {
        EXPECT_LT(copied, 4 * 4096u) << "the edges alone";
      } else {
        EXPECT_EQ(copied, 2 * kCount * sizeof(float)) << "in and out";
      }
    }
  });
}

TEST(Collectives, BuffersThatOverlapAskewAreRefused) {
  LocalNode node;
  Rank r(node.address(), 0, 1);
  tally_region* region = nullptr;
  r.alloc<float>(1000, &region);
  tally_operation op = operation(TALLY_ALL_REDUCE, TALLY_F32, 1, 100, {region, 0}, {region, 4});
  EXPECT_EQ(tally_post(r.session(), &op), TALLY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(r.error()).find("not element on element"), std::string::npos);
  op.out.offset = 400;
  EXPECT_EQ(tally_post(r.session(), &op), TALLY_OK) << r.error();
  EXPECT_EQ(r.wait().status, TALLY_OK);
}

// A completion that another tally_run set aside is not mistaken for the next round's.
TEST(Collectives, RunWaitsForItsOwnRound) {
  LocalNode node;
  Rank r(node.address(), 0, 1);
  tally_region* region = nullptr;
  r.alloc<float>(1010, &region);
  const tally_operation five =
      operation(TALLY_ALL_REDUCE, TALLY_F32, 5, 1000, {region, 0}, {region, 0});
  const tally_operation six =
      operation(TALLY_ALL_REDUCE, TALLY_F32, 6, 10, {region, 4000}, {region, 4000});
  ASSERT_EQ(tally_post(r.session(), &five), TALLY_OK);
  // Until the completion is there, which nobody takes.
  const Nanos deadline = monotonic_now() + 20 * kSecond;
  while (tally_arm(r.session()) == TALLY_OK && monotonic_now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(r.run(six).tag, 6u);
  EXPECT_EQ(r.run(five).round, 1u);
  EXPECT_EQ(tally_arm(r.session()), TALLY_AGAIN) << "round 0 is still to be taken";
  EXPECT_EQ(r.wait().round, 0u);
  EXPECT_EQ(tally_arm(r.session()), TALLY_OK);
}

TEST(Collectives, StatisticsDoNotDependOnTilesOrShards) {
  constexpr std::uint64_t kCount = 300'000;
  double expected = 0;
  for (const std::uint32_t shards : {1u, 3u}) {
    for (const std::uint64_t tile_bytes : {16u << 10, 128u << 10}) {
      LocalNode node({.shards = shards, .tile_bytes = tile_bytes});
      on_each_rank(2, [&](std::uint32_t rank) {
        Rank r(node.address(), rank, 2);
        ASSERT_EQ(r.opened(), TALLY_OK) << r.open_error();
        tally_region* region = nullptr;
        float* data = r.alloc<float>(kCount, &region);
        for (std::uint64_t i = 0; i < kCount; ++i) data[i] = 0.1f * static_cast<float>(i % 977);
        data[12345] = rank == 0 ? INFINITY : 1.0f;
        data[270'000] = NAN;
        tally_operation op =
            operation(TALLY_ALL_REDUCE, TALLY_F32, 1, kCount, {region, 0}, {region, 0});
        op.flags = TALLY_WANT_STATS;
        const auto done = r.run(op);
        ASSERT_EQ(done.status, TALLY_OK) << done.message;
        EXPECT_EQ(done.nonfinite, 2u);
        EXPECT_GT(done.sum_of_squares, 1e6);
        if (rank == 0 && expected == 0) expected = done.sum_of_squares;
        if (rank == 0) {
          EXPECT_EQ(done.sum_of_squares, expected) << "the same bits";
        }
      });
    }
  }
}

}  // namespace
}  // namespace tally::testing
