// Both halves of a queue pair over a network with faults, from many seeds.
#include <gtest/gtest.h>

#include "tests/roce/pair_world.h"
#include "tests/support/tier.h"

namespace tally::transport::roce {
namespace {

void run_seeds(const char* what, std::uint64_t count, const Faults& faults, const Load& load) {
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    PairOptions options;
    options.mtu = 256U << seed % 3;
    options.reads_out = options.reads_in = 1 + static_cast<std::uint32_t>(seed % 16);
    options.ack_timeout = 2'000'000;
    options.tries = 60;  // at these rates of loss
    PairWorld world(seed, options, faults, load);
    const std::string wrong = world.run();
    ASSERT_EQ(wrong, "") << what << ", seed " << seed;
    const bool is_faulty = faults.lost > 0 || faults.doubled > 0 || faults.reordered > 0;
    ASSERT_TRUE(is_faulty || world.timeouts() == 0) << what << ", seed " << seed;
  }
}

TEST(RocePairs, CarryEverythingInOrder) {
  run_seeds("no faults", 50, {}, {});
  run_seeds("few receives", 50, {}, {.few_receives = true});
}

TEST(RocePairs, CarryEverythingOverAFaultyNetwork) {
  const std::string tier = tally::testing::test_tier();
  const std::uint64_t count = tier == "soak" ? 200'000 : tier == "fast" ? 400 : 5'000;
  run_seeds("loss", count, {.lost = 0.01}, {});
  run_seeds("much loss", count, {.lost = 0.1}, {.works = 12});
  run_seeds("doubled", count, {.doubled = 0.2}, {.works = 12});
  run_seeds("reordered", count, {.reordered = 0.3}, {.works = 12});
  run_seeds("all of it", count, {.lost = 0.05, .doubled = 0.05, .reordered = 0.1},
            {.works = 12, .few_receives = true});
}

TEST(RocePairs, RepairManyReads) {
  const std::string tier = tally::testing::test_tier();
  const std::uint64_t count = tier == "soak" ? 20'000 : tier == "fast" ? 40 : 400;
  const Faults faults = {.lost = 0.1, .doubled = 0.05, .reordered = 0.05, .more_delay = 400'000};
  run_seeds("long reads", count, faults, {.works = 60, .changes_windows = true, .long_reads = 0.9});
}

}  // namespace
}  // namespace tally::transport::roce
