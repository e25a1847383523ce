// The EAL starts once per process, so all of this is one test program of its own.
#include "dataplane/engine/eal.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

namespace tally::engine {
namespace {

constexpr std::uint32_t kShards = 2;

class EalTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    CPU_ZERO(&affinity_before);
    ASSERT_EQ(sched_getaffinity(0, sizeof affinity_before, &affinity_before), 0);
    // What cannot work is refused before anything is started.
    EXPECT_EQ(Eal::start({.shards = 0}).status(), Status::kInvalidArgument);
    EXPECT_EQ(Eal::start({.shards = kMaxShards + 1}).status(), Status::kInvalidArgument);
    EXPECT_EQ(Eal::start({.memory_mib = 0}).status(), Status::kInvalidArgument);
    auto started = Eal::start({.shards = kShards, .memory_mib = 32});
    ASSERT_TRUE(started.ok()) << started.error().message;
    shared_eal = std::move(started).value();
  }
  static void TearDownTestSuite() { shared_eal.reset(); }
  void SetUp() override { ASSERT_NE(shared_eal, nullptr); }

  static inline std::unique_ptr<Eal> shared_eal;
  static inline cpu_set_t affinity_before;
};

TEST_F(EalTest, KeepsTheCallersAffinity) {
  cpu_set_t after;
  CPU_ZERO(&after);
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&affinity_before, &after));
}

TEST_F(EalTest, ShardsHaveACoreEachWhereThereAreEnough) {
  const auto cores = static_cast<std::uint32_t>(CPU_COUNT(&affinity_before));
  if (cores < shared_eal->shards()) GTEST_SKIP() << "fewer cores than shards: they float";
  std::vector<cpu_set_t> where(shared_eal->shards());
  for (std::uint32_t i = 0; i < where.size(); ++i) {
    ASSERT_TRUE(
        shared_eal->launch(i, [&cpus = where[i]] { sched_getaffinity(0, sizeof cpus, &cpus); }));
  }
  shared_eal->join();
  cpu_set_t together;
  CPU_ZERO(&together);
  for (const cpu_set_t& cpus : where) {
    EXPECT_EQ(CPU_COUNT(&cpus), 1);
    CPU_OR(&together, &together, &cpus);
  }
  EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&together)), where.size());
}

TEST_F(EalTest, StartsOncePerProcess) {
  EXPECT_EQ(Eal::start({}).status(), Status::kInternal);
}

// Each waits for all the others.
TEST_F(EalTest, ShardsRunAtTheSameTime) {
  std::atomic<std::uint32_t> arrived{0};
  std::uint64_t plain[kShards] = {};  // written by the shards, read after join
  for (std::uint32_t shard = 0; shard < kShards; ++shard) {
    auto launched = shared_eal->launch(shard, [&, shard] {
      arrived.fetch_add(1);
      while (arrived.load() < kShards) sched_yield();
      plain[shard] = shard + 1;
    });
    ASSERT_TRUE(launched.ok()) << launched.error().message;
  }
  shared_eal->join();
  EXPECT_EQ(arrived.load(), kShards);
  EXPECT_EQ(plain[0] + plain[1], 3u);
}

TEST_F(EalTest, AShardCanBeLaunchedAgainButNotTwiceAtOnce) {
  std::uint64_t runs = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(shared_eal->launch(1, [&runs] { ++runs; }).ok());
    shared_eal->join();
  }
  EXPECT_EQ(runs, 50u);

  std::atomic<bool> end{false};
  ASSERT_TRUE(shared_eal
                  ->launch(0,
                           [&end] {
                             while (!end) sched_yield();
                           })
                  .ok());
  EXPECT_EQ(shared_eal->launch(0, [] {}).status(), Status::kInternal);
  end = true;
  shared_eal->join();
  EXPECT_EQ(shared_eal->launch(kShards, [] {}).status(), Status::kInvalidArgument);
}

TEST_F(EalTest, ABodyEndsWithWhatItOwns) {
  auto owned = std::make_shared<int>(7);
  ASSERT_TRUE(shared_eal->launch(1, [owned] {}).ok());
  shared_eal->join();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(EalTest, MemoryIsAlignedZeroedAndGivenBack) {
  constexpr std::size_t kBytes = 12u << 20;
  for (int i = 0; i < 20; ++i) {  // more than there is, unless it comes back
    auto made = shared_eal->allocate(kBytes, 4096);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EalMemory memory = std::move(made).value();
    ASSERT_EQ(memory.size(), kBytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
    EXPECT_EQ(memory.data()[0], std::byte{0});
    EXPECT_EQ(memory.data()[kBytes - 1], std::byte{0});
    std::memset(memory.data(), 0xff, kBytes);
    EalMemory moved = std::move(memory);
    EXPECT_EQ(moved.data()[kBytes / 2], std::byte{0xff});
  }
}

TEST_F(EalTest, MemoryIsBounded) {
  if (shared_eal->on_hugepages()) GTEST_SKIP() << "on hugepages the EAL may grow";
  auto made = shared_eal->allocate(std::size_t{1} << 30, 64);
  ASSERT_EQ(made.status(), Status::kNoMemory);
  EXPECT_NE(made.error().message.find("32 MiB"), std::string::npos) << made.error().message;
  EXPECT_EQ(shared_eal->allocate(64, 3).status(), Status::kInvalidArgument);
  EXPECT_EQ(shared_eal->allocate(0, 64).status(), Status::kInvalidArgument);
}

TEST_F(EalTest, ThreadsMadeLaterAreNotPinned) {
  std::thread([] {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    EXPECT_TRUE(CPU_EQUAL(&affinity_before, &cpus));
  }).join();
}

}  // namespace
}  // namespace tally::engine
