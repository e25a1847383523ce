// Shards that stay on given CPUs. The EAL starts once per process: a test program of its own.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <vector>

#include "dataplane/engine/eal.h"

namespace tally::engine {
namespace {

TEST(EalPlaces, AShardStaysOnItsCpu) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;  // the last first
  for (int cpu = CPU_SETSIZE; cpu-- > 0;) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  cpus.resize(std::min<std::size_t>(cpus.size(), 3));
  const auto shards = static_cast<std::uint32_t>(cpus.size());
  EXPECT_EQ(Eal::start({.shards = shards + 1, .cpus = cpus}).status(), Status::kInvalidArgument);
  const auto eal = Eal::start({.shards = shards, .memory_mib = 32, .cpus = cpus});
  ASSERT_TRUE(eal.ok()) << eal.error().message;
  std::vector<cpu_set_t> where(shards);
  for (std::uint32_t i = 0; i < shards; ++i) {
    ASSERT_TRUE((*eal)->launch(i, [&set = where[i]] { sched_getaffinity(0, sizeof set, &set); }));
  }
  (*eal)->join();
  for (std::uint32_t i = 0; i < shards; ++i) {
    EXPECT_EQ(CPU_COUNT(&where[i]), 1);
    EXPECT_TRUE(CPU_ISSET(cpus[i], &where[i])) << "shard " << i;
  }
}

}  // namespace
}  // namespace tally::engine
