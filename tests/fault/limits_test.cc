// What runs out: regions, memory at either side, the file system. The one who asks is told the
// numbers; who is served already is served on.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fault/cluster.h"
#include "tests/fault/memory_group.h"
#include "tests/fault/raw_session.h"

namespace tally::testing {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {

const Cluster::RankOptions small_rank{.elements = 50'000};

class Limits : public ::testing::Test, protected Cluster {
 protected:
  void restart_with(const std::string& configuration) {
    const std::string path = node / "tallyd.toml";
    std::ofstream(path) << configuration;
    start_node("", {"--config", path});
  }
  static void expect_sums(const std::vector<std::unique_ptr<Process>>& ranks) {
    for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "sum 1 50000"), "posted");
    for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "wait"), "1 ok wrong 0");
  }
};

// The address space that a process has now, and so much more.
void limit_memory(pid_t process, std::uint64_t more) {
  std::ifstream pages_file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t pages = 0;
  ASSERT_TRUE(pages_file >> pages);
  rlimit limit{pages * 4096 + more, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(process, RLIMIT_AS, &limit, nullptr), 0);
}

std::uint64_t kilobytes_of(pid_t process, const std::string& what) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (status >> word && word != what) continue;
  status >> kilobytes;
  return kilobytes;
}

// Of its memory, what nobody else has.
std::uint64_t own_kilobytes(pid_t process) {
  return kilobytes_of(process, "RssAnon:");
}

// As limit_memory(), of what it can write to: an arena's address space is its own already.
void limit_data(pid_t process, std::uint64_t more) {
  rlimit limit{kilobytes_of(process, "VmData:") * 1024 + more, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(process, RLIMIT_DATA, &limit, nullptr), 0);
}

TEST_F(Limits, MoreRegionsThanTheJobMayHaveAreRefusedWithTheNumbers) {
  restart_with("[limits]\nmax_regions = 3\n");
  const auto ranks = job(3, "train", small_rank);
  const auto other = job(1, "other", small_rank);
  EXPECT_EQ(ask(*ranks[0], "free"), "freed");
  EXPECT_EQ(ask(*ranks[0], "region"), "region");
  EXPECT_THAT(ask(*ranks[0], "region"),
              StartsWith("refused job \"train\" has 3 regions and limits.max_regions is 3"));
  expect_sums(other);
}

TEST_F(Limits, MoreMemoryThanTheJobMayRegisterIsRefusedWithTheNumbers) {
  restart_with("[limits]\nmax_region_bytes = \"1MiB\"\n");
  const auto served = job(2, "served", small_rank);  // 400 KB each
  const auto third = rank(0, 1, "greedy", {.elements = 1 << 18});
  EXPECT_THAT(third->line(),
              AllOf(StartsWith("refused job \"greedy\""), HasSubstr("max_region_bytes 1048576")));
  expect_sums(served);
}

// A thousand ranks take more for their tables than there is.
TEST_F(Limits, ANodeWithoutMemoryForAJobsTablesRefusesTheJobAndServesOn) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's allocator ends its process when memory runs out";
  }
  const auto served = job(2, "served", small_rank);
  limit_data(node->pid(), 1 << 18);
  const auto large = rank(0, 1000, "large", small_rank);
  EXPECT_THAT(large->line(), AllOf(StartsWith("refused"), HasSubstr("no memory for the tables")));
  expect_sums(served);
  limit_data(node->pid(), std::uint64_t{1} << 40);
  EXPECT_EQ(ask(*large, "open"), "ready");
}

TEST_F(Limits, ANodeWithoutMemoryRefusesTheRegionAndServesOn) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's allocator ends its process when memory runs out";
  }
  const auto served = job(2, "served", small_rank);
  limit_memory(node->pid(), 16 << 20);
  const auto late = rank(0, 1, "late", {.elements = 1 << 24});
  EXPECT_THAT(late->line(), AllOf(StartsWith("refused region of "), HasSubstr("memory")));
  expect_sums(served);
  limit_memory(node->pid(), std::uint64_t{1} << 40);
  EXPECT_EQ(ask(*late, "open"), "ready");
}

TEST_F(Limits, ARankWithoutMemoryHasAnErrorAndHarmsNobody) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's allocator ends its process when memory runs out";
  }
  const auto served = job(2, "served", small_rank);
  const auto poor = rank(0, 1, "poor", {.elements = 1 << 22});
  EXPECT_EQ(poor->line(), "ready");
  EXPECT_EQ(ask(*poor, "close"), "closed");
  limit_memory(poor->pid(), 16 << 20);
  EXPECT_THAT(ask(*poor, "open"), AllOf(StartsWith("refused "), HasSubstr("memory")));
  expect_sums(served);
}

// A rank that fills its job's share of the node's memory and then takes the pages away: each tile
// that the node touches is a page that it pays for.
TEST_F(Limits, HolesInAllTheMemoryThatCanBeRegisteredDoNotKillTheNode) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a node with a sanitizer needs more memory than the group has";
  }
  const MemoryGroup group(256 << 20);
  if (!group.made()) GTEST_SKIP() << "this user may not make a cgroup of memory";
  node.launch({"/bin/sh", "-c",
               "echo $$ >" + group.members() + " && exec " TALLYD " --listen " + address +
                   " --shards 2 --log-level error --ready-fd 1"});
  node.wait_until_ready();
  const auto served = job(2, "served", small_rank);

  constexpr std::size_t kPiece = 16 << 20;
  std::vector<std::unique_ptr<RawSession>> greedy;
  std::size_t registered = 0;
  for (const char* name : {"greedy", "greedier"}) {
    greedy.push_back(std::make_unique<RawSession>(RawOptions{address, name, 0, 1}));
    RawSession& session = *greedy.back();
    for (;;) {
      auto memory = transport::shm::make_shared("greedy", kPiece);
      ASSERT_TRUE(memory.ok()) << memory.error().message;
      const auto region = session.add_region(memory->fd.get(), kPiece);
      if (!region.ok()) {
        EXPECT_THAT(region.error().message, HasSubstr("_region_bytes 134217728"));
        break;
      }
      registered += kPiece;
      ASSERT_EQ(
          ::fallocate(memory->fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPiece), 0);
      auto notice = session.notice(1, static_cast<std::uint32_t>(registered / kPiece) - 1,
                                   kPiece / sizeof(float));
      notice.in_region = notice.out_region = *region;
      session.send(notice);
    }
  }
  EXPECT_GE(registered, 96u << 20) << "most of what the group has beside the node";
  expect_sums(served);
  for (auto& session : greedy) session->drain();
  EXPECT_EQ(node->wait(200), -1) << "it lives";
}

// A peer chooses the numbers of its regions, and every shard has a table for each session.
TEST_F(Limits, NumbersOfRegionsCostTheNodeNoMemory) {
  constexpr int kSessions = 32;
  const auto served = job(2, "served", small_rank);
  std::vector<std::unique_ptr<RawSession>> sessions;
  for (int i = 0; i < kSessions; ++i) {
    sessions.push_back(
        std::make_unique<RawSession>(RawOptions{address, "far-" + std::to_string(i), 0, 1}));
  }
  const std::uint64_t before = own_kilobytes(node->pid());
  for (auto& session : sessions) {
    const int fds[] = {session->data.fd.get()};
    const auto far = session->channel.call("region.register", {{"bytes", 4096}, {"region", 8192}},
                                           fds, monotonic_now() + 10 * kSecond);
    ASSERT_TRUE(far.ok()) << far.error().message;
  }
  EXPECT_LT(own_kilobytes(node->pid()), before + 4096);
  expect_sums(served);
}

// The node has stopped in the middle of a tile, and the ranks can have no memfd to move their
// memory into: they are told so in time, and have their buffers back when the node is dead.
TEST_F(Limits, RanksThatCannotShutAStoppedNodeOutDoNotWaitForIt) {
  if (is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  start_node("node.storing:stop:1");
  const auto ranks = job(2, "train", small_rank);
  for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "deadline 300"), "deadline");
  for (const auto& rank : ranks) EXPECT_EQ(ask(*rank, "sum 1 50000"), "posted");
  const rlimit none{3, 3};
  for (const auto& rank : ranks) {
    ASSERT_EQ(::prlimit(rank->pid(), RLIMIT_NOFILE, &none, nullptr), 0);
    rank->send("wait");
  }
  for (const auto& rank : ranks) {
    EXPECT_THAT(rank->line(40'000), AllOf(StartsWith("no completion: "), HasSubstr(address),
                                          HasSubstr("1 operations keep their buffers")));
    EXPECT_THAT(ask(*rank, "free"), StartsWith("not freed: "));
  }
  node.kill();
  for (const auto& rank : ranks) {
    EXPECT_THAT(ask(*rank, "wait"), StartsWith("1 node lost"));
    EXPECT_EQ(ask(*rank, "free"), "freed");
  }
}

TEST_F(Limits, ALogThatCannotBeWrittenStopsNobody) {
  node.launch({"/bin/sh", "-c",
               "exec " TALLYD " --listen " + address +
                   " --shards 2 --log-level debug --ready-fd 1 "
                   "2>/dev/full"});
  node.wait_until_ready();
  auto ranks = job(2, "train", small_rank);
  expect_sums(ranks);
  ranks[1]->signal(SIGKILL);
  EXPECT_EQ(ask(*ranks[0], "sum 1 50000"), "posted");
  EXPECT_THAT(ask(*ranks[0], "wait"), StartsWith("1 peer lost 1"));
  node.stop();
}

TEST_F(Limits, AFullFileSystemIsNamedAtTheStart) {
  const std::string place = node / "full";
  std::filesystem::create_directory(place);
  Process full({"/bin/sh", "-c",
                "unshare -m sh -c 'mount -t tmpfs -o size=4k,nr_inodes=1 none " + place +
                    " 2>/dev/null || exit 77; exec " TALLYD " --listen unix:" + place +
                    "/s 2>&1' || exit $?"});
  const int status = full.wait();
  if (status == 77 || status == 127) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(status, 1);
  EXPECT_THAT(full.output(), AllOf(HasSubstr(place + "/s"), HasSubstr("No space left on device")));
}

}  // namespace
}  // namespace tally::testing
