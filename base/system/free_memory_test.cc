#include "base/system/free_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tally {
namespace {

class FreeMemoryTest : public ::testing::Test {
 protected:
  FreeMemoryTest() : root_(::testing::TempDir() + "free-memory-" + std::to_string(::getpid())) {
    write("proc/meminfo", "MemTotal:  200 kB\nMemFree:  50 kB\nMemAvailable:  100 kB\n");
  }
  ~FreeMemoryTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  FreeMemory read() const { return free_memory(root_ + "/proc", root_ + "/cgroup"); }

  std::string root_;
};

TEST_F(FreeMemoryTest, WithoutAGroupIsWhatTheMachineHasAvailable) {
  EXPECT_EQ(read().bytes, 102'400U);
  EXPECT_EQ(read().where, "this machine (MemAvailable)");
}

TEST_F(FreeMemoryTest, OfNoMachineIsWithoutLimit) {
  std::filesystem::remove(root_ + "/proc/meminfo");
  EXPECT_EQ(read().bytes, UINT64_MAX);
}

TEST_F(FreeMemoryTest, IsWhatTheTightestGroupLeavesAndItsCachesAreFree) {
  write("proc/self/cgroup", "3:cpu:/elsewhere\n0::/a/b\n");
  write("cgroup/a/b/memory.max", "max\n");
  write("cgroup/a/b/memory.current", "1\n");
  write("cgroup/a/memory.max", "60000\n");
  write("cgroup/a/memory.current", "50000\n");
  EXPECT_EQ(read().bytes, 10'000U);
  EXPECT_EQ(read().where, "cgroup /a (memory.max 60000)");
  write("cgroup/a/memory.stat",
        "anon 1\ninactive_file 2000\nactive_file 500\nslab_reclaimable 7\n");
  EXPECT_EQ(read().bytes, 12'507U);
  write("cgroup/memory.max", "9000\n");  // a container's own
  write("cgroup/memory.current", "10000\n");
  EXPECT_EQ(read().bytes, 0U);
}

TEST_F(FreeMemoryTest, GroupsOfVersionOneAreReadToo) {
  write("proc/self/cgroup", "4:memory:/a\n0::/\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "4500\n");
  write("cgroup/memory/a/memory.stat", "total_inactive_file 100\ninactive_file 900\n");
  EXPECT_EQ(read().bytes, 600U);
}

TEST(FreeMemory, OfThisMachineIsSomething) {
  EXPECT_GT(free_memory().bytes, 0U);
  EXPECT_NE(free_memory().where, "");
}

}  // namespace
}  // namespace tally
