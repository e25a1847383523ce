#include "dataplane/transport/shm/fault_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "base/fd.h"
#include "dataplane/transport/shm/segment.h"

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

TEST(FaultGuard, AReadGivesZerosAndSaysSo) {
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

TEST(FaultGuard, AStoreGoesNowhereAndSaysSo) {
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
