#include "control/machine/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tally::control {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest()
      : root_(::testing::TempDir() + "cgroup-" + std::to_string(::getpid())),
        groups_(root_ + "/groups") {
    std::filesystem::create_directories(root_ + "/a/b");
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::ofstream(root_ + file) << text;
  }

  std::string root_;
  std::string groups_;
};

TEST_F(MemoryLimitTest, TheTightestGroupAboveCounts) {
  write("/groups", "3:cpu:/elsewhere\n0::/a/b\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), UINT64_MAX);
  write("/a/b/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), UINT64_MAX);
  write("/a/memory.max", "4096000\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 4'096'000u);
  write("/a/b/memory.max", "5000000\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 4'096'000u);
  write("/a/b/memory.max", "8192\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 8192u);
}

TEST_F(MemoryLimitTest, InAContainerTheRootIsTheContainersGroup) {
  write("/groups", "0::/\n");
  write("/memory.max", "12288\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 12288u);
  write("/groups", "0::/what/the/host/calls/it\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 12288u);
}

TEST_F(MemoryLimitTest, GroupsOfVersionOneCountToo) {
  std::filesystem::create_directories(root_ + "/memory/a/b");
  write("/groups", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/memory/a/memory.limit_in_bytes", "16384\n");
  write("/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  write("/a/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), 16384u);
}

TEST(MemoryForPeers, TheNodeKeepsWhatItNeeds) {
  EXPECT_EQ(memory_for_peers(4ull << 30), (4ull << 30) - (256 << 20));
  EXPECT_EQ(memory_for_peers(100 << 20), 50u << 20);
  EXPECT_EQ(memory_for_peers(3 * 4096), 4096u) << "whole pages, as a configuration must have them";
}

TEST_F(MemoryLimitTest, WithoutGroupsThereIsNoLimitButTheMachine) {
  EXPECT_EQ(cgroup_memory_limit(root_, root_ + "/none"), UINT64_MAX);
  write("/groups", "0::/\n");
  EXPECT_EQ(cgroup_memory_limit(root_, groups_), UINT64_MAX);
  EXPECT_GT(memory_limit(), 0u);
  EXPECT_LT(memory_limit(), UINT64_MAX);
}

}  // namespace
}  // namespace tally::control
