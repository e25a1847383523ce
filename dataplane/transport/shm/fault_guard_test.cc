#include "dataplane/transport/shm/fault_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "dataplane/transport/shm/segment.h"
#include "tests/support/tier.h"

namespace tally::transport::shm {
namespace {

constexpr std::size_t kBytes = 8 * kPage;

// A memfd without seals: cut off, it faults like a page that cannot be had.
struct Cuttable {
  Cuttable() : fd(::memfd_create("cuttable", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd.get(), kBytes), 0);
    mapping = Mapping::shared(fd.get(), kBytes, false);
    for (std::size_t i = 0; i < kBytes; ++i) mapping.data()[i] = std::byte{1};
  }
  void cut() const { EXPECT_EQ(::ftruncate(fd.get(), 0), 0); }
  std::span<std::byte> bytes() const { return {mapping.data(), kBytes}; }

  UniqueFd fd;
  Mapping mapping;
};

TEST(FaultGuard, AReadGivesZerosAndReportsIt) {
  survive_memory_faults();
  const Cuttable victim, other;
  FaultWord faulted{0}, other_faulted{0};
  const FaultGuard guard(victim.bytes(), faulted), other_guard(other.bytes(), other_faulted);
  EXPECT_EQ(victim.bytes()[5], std::byte{1});
  EXPECT_EQ(faulted, 0u);
  victim.cut();
  EXPECT_EQ(victim.bytes()[3 * kPage + 5], std::byte{0});
  EXPECT_EQ(faulted, 1u);
  EXPECT_EQ(victim.bytes()[0], std::byte{0}) << "all of it is replaced at once";
  EXPECT_EQ(other.bytes()[5], std::byte{1});
  EXPECT_EQ(other_faulted, 0u);
}

TEST(FaultGuard, AStoreGoesNowhereAndIsReported) {
  survive_memory_faults();
  const Cuttable victim;
  FaultWord faulted{0};
  FaultGuard first(victim.bytes(), faulted);
  const FaultGuard guard = std::move(first);  // still watches
  victim.cut();
  victim.bytes()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(faulted, 1u);
}

TEST(FaultGuard, ManyGuardsAreFound) {
  survive_memory_faults();
  const Cuttable victim;
  FaultWord faulted{0}, others{0};
  std::vector<std::byte> elsewhere(500);
  std::vector<FaultGuard> guards;
  for (std::byte& byte : elsewhere) guards.emplace_back(std::span(&byte, 1), others);
  guards.emplace_back(victim.bytes(), faulted);
  guards.erase(guards.begin(), guards.begin() + 400);
  victim.cut();
  EXPECT_EQ(victim.bytes()[0], std::byte{0});
  EXPECT_EQ(faulted, 1u);
  EXPECT_EQ(others, 0u);
}

// -- guards that come and go while a handler runs ------------------------------------------------

constexpr Nanos kTimeout = 10 * kSecond;

bool comes(const std::atomic<bool>& flag, Nanos within = kTimeout) {
  const Nanos end = monotonic_now() + within;
  while (!flag && monotonic_now() < end) std::this_thread::yield();
  return flag;
}

// What the handler passes while a test watches it.
std::atomic<bool> holding{false}, go_on{false};
std::atomic<const FaultWord*> watched{nullptr};
std::atomic<std::uint32_t> word_when_replaced{0};

void stop_when_held(FaultStep step) {
  if (step != FaultStep::kHeld) return;
  holding = true;
  while (!go_on) std::this_thread::yield();
}

void read_word_when_replaced(FaultStep step) {
  if (step == FaultStep::kReplaced) word_when_replaced = watched.load()->load();
}

// The guard goes while the handler is between its look at the entry and the replacement; then other
// memory is mapped at the same place, with a guard that gets the same entry.
TEST(FaultGuard, AHandlerReplacesNothingOfTheNextOwners) {
  survive_memory_faults();
  holding = go_on = false;
  Cuttable victim;
  const std::span<std::byte> place = victim.bytes();
  FaultWord faulted{0}, next_faulted{0};
  FaultGuard guard(place, faulted), next_guard;
  const Cuttable next;
  watch_faults(stop_when_held);
  victim.cut();
  std::thread reader(
      [&] { static_cast<void>(*static_cast<volatile std::byte*>(place.data() + kPage)); });
  EXPECT_TRUE(comes(holding));
  std::atomic<bool> gone{false};
  std::thread owner([&] {
    guard.reset();
    gone = true;
    EXPECT_EQ(::mmap(place.data(), kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     next.fd.get(), 0),
              place.data());
    next_guard = FaultGuard(place, next_faulted);
  });
  EXPECT_FALSE(comes(gone, 50 * kMillisecond)) << "the handler is not at an end";
  go_on = true;
  reader.join();
  owner.join();
  watch_faults(nullptr);
  EXPECT_EQ(place[5], std::byte{1}) << "the next owner's memory is whole";
  place[6] = std::byte{9};
  EXPECT_EQ(next.bytes()[6], std::byte{9}) << "and still the next owner's";
  EXPECT_EQ(next_faulted, 0u);
  EXPECT_EQ(faulted, 1u);
}

// Another thread that reads the zeros has to find the word set.
TEST(FaultGuard, TheWordIsSetBeforeThePagesAreReplaced) {
  survive_memory_faults();
  const Cuttable victim;
  FaultWord faulted{0};
  const FaultGuard guard(victim.bytes(), faulted);
  watched = &faulted;
  word_when_replaced = 0;
  watch_faults(read_word_when_replaced);
  victim.cut();
  EXPECT_EQ(victim.bytes()[0], std::byte{0});
  watch_faults(nullptr);
  EXPECT_EQ(word_when_replaced, 1u);
}

// Threads whose memory is taken away, beside threads that make guards and release them as fast as
// they can: entries change hands all the time. Each finds its own word set, and nobody else's.
TEST(FaultGuard, GuardsComeAndGoWhileOthersFault) {
  survive_memory_faults();
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      std::minstd_rand random(seed + number);
      FaultWord faulted{0};
      while (!over) {
        const Cuttable calm;
        std::vector<FaultGuard> guards(1 + random() % 3);
        for (FaultGuard& guard : guards) guard = FaultGuard(calm.bytes(), faulted);
        calm.bytes()[random() % kBytes] = std::byte{2};
        guards.clear();
        if (calm.bytes()[random() % kBytes] == std::byte{0}) ++wrong;  // it was replaced
        if (faulted != 0) ++wrong;
      }
    });
  }
  for (unsigned number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      std::minstd_rand random(seed - 1 - number);
      for (int round = testing::test_tier() == "soak" ? 20'000 : 300; round > 0; --round) {
        const Cuttable victim;
        FaultWord faulted{0};
        const FaultGuard guard(victim.bytes(), faulted);
        if (::fallocate(victim.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes)) {
          ++wrong;
        }
        victim.bytes()[0] = std::byte{3};  // a hole is filled: no fault
        if (faulted != 0) ++wrong;
        victim.cut();
        if (victim.bytes()[random() % kBytes] != std::byte{0} || faulted != 1) ++wrong;
      }
    });
  }
  for (std::size_t i = threads.size() - 2; i < threads.size(); ++i) threads[i].join();
  over = true;
  for (std::size_t i = 0; i + 2 < threads.size(); ++i) threads[i].join();
  EXPECT_EQ(wrong, 0);
}

TEST(FaultGuardDeathTest, AFaultThatNobodyGuardsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [] {
    survive_memory_faults();
    const Cuttable victim;
    FaultWord faulted{0};
    FaultGuard guard(victim.bytes(), faulted);
    guard.reset();
    victim.cut();
    static_cast<void>(*static_cast<volatile std::byte*>(victim.bytes().data()));
  };
  EXPECT_EXIT(touch(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace tally::transport::shm
