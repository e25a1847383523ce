// Sums over random trees of nodes: exact results, no deadlock, one verdict. TALLY_SIM_SEED replays
// a seed: of healthy plans, or with TALLY_SIM_FAULTS set, of those in which something goes wrong.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/sim/trees/world.h"

namespace tally::sim::trees {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t plans() {
  const std::string tier = environment("TALLY_TEST_TIER");
  if (tier == "fast") return 60;
  return tier == "soak" ? 10'000 : 500;
}

// By fault, jobs in which parts of operations did not end well.
using Struck = std::map<Fault, int>;

Struck run_all(bool healthy) {
  Struck struck;
  if (const std::string seed = environment("TALLY_SIM_SEED"); !seed.empty()) {
    const Schedule schedule = make_schedule(std::stoull(seed), healthy);
    fmt::print("{}\n", describe(schedule));
    const Trace trace(true);
    World(schedule, trace).run();
    return struck;
  }
  const Trace silent(false);
  std::uint64_t events = 0;
  int failures = 0;
  for (std::uint64_t seed = 1; seed <= plans() && failures < 5; ++seed) {
    const Schedule schedule = make_schedule(seed, healthy);
    try {
      World world(schedule, silent);
      world.run();
      events += world.events();
      for (std::size_t job = 0; job < schedule.jobs.size(); ++job) {
        if (world.failures(job) > 0) ++struck[schedule.jobs[job].fault];
      }
    } catch (const std::exception& error) {
      ++failures;
      ADD_FAILURE() << "seed " << seed
                    << " failed; replay: " << (healthy ? "" : "TALLY_SIM_FAULTS=1 ")
                    << "TALLY_SIM_SEED=" << seed << " build/tests/sim/trees/trees\n  "
                    << error.what() << "\n  " << describe(schedule);
    }
  }
  fmt::print("{} plans, {} events\n", plans(), events);
  return struck;
}

TEST(Trees, EveryPlan) {
  if (!environment("TALLY_SIM_FAULTS").empty()) GTEST_SKIP() << "faults are asked for";
  EXPECT_TRUE(run_all(true).empty());
}

TEST(Trees, WhateverGoesWrongHasOneVerdict) {
  const bool only_healthy =
      !environment("TALLY_SIM_SEED").empty() && environment("TALLY_SIM_FAULTS").empty();
  if (only_healthy) GTEST_SKIP() << "no faults are asked for";
  const Struck struck = run_all(false);
  if (!environment("TALLY_SIM_SEED").empty()) return;
  for (std::uint64_t i = 1; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    EXPECT_GT(struck.contains(fault) ? struck.at(fault) : 0, 1) << name(fault);
  }
}

// Without the classes trees wait for each other in a circle: the simulation can find what they are
// there to prevent.
TEST(Trees, WithOneClassForAllHeightsThereAreDeadlocks) {
  if (!environment("TALLY_SIM_SEED").empty()) GTEST_SKIP() << "one seed is asked for";
  const Trace silent(false);
  int deadlocks = 0;
  constexpr std::uint64_t kMost = 200;
  for (std::uint64_t seed = 1; seed <= kMost && deadlocks == 0; ++seed) {
    Schedule schedule = make_schedule(seed, true);
    schedule.one_class = true;
    schedule.tiles = 1;
    for (JobPlan& job : schedule.jobs) job.buffers.up = job.buffers.down = 1;
    try {
      World(schedule, silent).run();
    } catch (const Deadlock&) {
      ++deadlocks;
      // It is for want of room: with plenty of it the same plan comes to its end.
      schedule.tiles = 1000;
      schedule.window_bytes = 1 << 30;
      for (JobPlan& job : schedule.jobs) job.buffers.up = job.buffers.down = 100;
      EXPECT_NO_THROW(World(schedule, silent).run());
    }
  }
  EXPECT_GT(deadlocks, 0);
}

}  // namespace
}  // namespace tally::sim::trees
