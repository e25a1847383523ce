// In busy mode the path of a tile allocates nothing, locks nothing and calls the kernel for
// nothing.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>

#include <mutex>

#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"
#include "tests/e2e/thread_watch.h"

namespace tally::testing {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::uint64_t kLarge = 1 << 20;  // elements: many tiles

// What the messages to the shard may cost that begin and end the counting; thousands of tiles pass
// in between.
constexpr std::uint64_t kForMessages = 8;

struct Member {
  std::unique_ptr<Rank> rank;
  tally_region* region = nullptr;
};

// Polls and never sleeps: who sleeps has to be woken by a system call.
void run_busy(Member& member, std::uint64_t count, int rounds) {
  const auto wanted = operation(TALLY_ALL_REDUCE, TALLY_F32, 7, count, {member.region, 0},
                                {member.region, kLarge * sizeof(float)});
  for (int round = 0; round < rounds; ++round) {
    ASSERT_EQ(tally_post(member.rank->session(), &wanted), TALLY_OK);
    tally_completion completion{};
    completion.size = sizeof completion;
    int taken = 0;
    while ((taken = tally_poll(member.rank->session(), &completion, 1)) == 0) ::sched_yield();
    ASSERT_EQ(taken, 1);
    ASSERT_EQ(completion.status, TALLY_OK);
  }
}

// Of the node's only shard, while `work` is done.
ThreadCounts counts_of(LocalNode& node, const std::function<void()>& work) {
  node.on_each_shard([](auto, auto&, auto&) { start_counting(); });
  work();
  ThreadCounts counts;
  node.on_each_shard([&](auto, auto&, auto&) { counts = stop_counting(); });
  return counts;
}

TEST(SteadyState, NoAllocationNoLockAndNoSystemCall) {
  LocalNode node({.shards = 1, .busy = true});
  std::vector<Member> members(kRanks);
  on_each_rank(kRanks, [&](std::uint32_t r) {
    members[r].rank = std::make_unique<Rank>(node.address(), r, kRanks, "steady");
    ASSERT_EQ(members[r].rank->opened(), TALLY_OK) << members[r].rank->open_error();
    members[r].rank->alloc<float>(2 * kLarge, &members[r].region);
  });
  const auto run_all = [&] {
    on_each_rank(kRanks, [&](std::uint32_t r) {
      run_busy(members[r], 1000, 2000);
      run_busy(members[r], kLarge, 20);
    });
  };
  bool watched = false;
  node.on_each_shard([&](auto, auto&, auto&) { watched = watch_this_thread(); });
  if (!watched) GTEST_SKIP() << "this kernel has no seccomp filters";
  run_all();
  const Nanos begin = monotonic_now();
  ThreadCounts counts = counts_of(node, run_all);
  const Nanos span = monotonic_now() - begin;

  // The chores look for the dead every 100 us, whatever there is to do.
  const std::uint64_t chores = counts.system_calls[SYS_epoll_wait];
  EXPECT_LE(chores, static_cast<std::uint64_t>(span / (100 * kMicrosecond)) + 10);
  counts.system_calls.erase(SYS_epoll_wait);
  for (const auto& [number, times] : counts.system_calls) {
    EXPECT_LE(times, kForMessages) << "system call " << number;
  }
  EXPECT_LE(counts.locks, kForMessages);
  EXPECT_LE(counts.allocations, kForMessages);
}

// The watch itself: what it must see, it sees.
TEST(SteadyState, TheWatchCounts) {
  std::thread([] {
    if (!watch_this_thread()) GTEST_SKIP() << "this kernel has no seccomp filters";
    std::mutex mutex;
    start_counting();
    mutex.lock();
    mutex.unlock();
    ::sched_yield();
    auto* volatile memory = new int(::getppid());
    delete memory;
    const ThreadCounts counts = stop_counting();
    EXPECT_EQ(counts.locks, 1u);
    EXPECT_EQ(counts.allocations, 2u);
    EXPECT_EQ(counts.system_calls,
              (std::map<int, std::uint64_t>{{SYS_sched_yield, 1}, {SYS_getppid, 1}}));
  }).join();
}

}  // namespace
}  // namespace tally::testing
