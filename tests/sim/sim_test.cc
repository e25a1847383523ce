// Thousands of small schedules, each from its seed. TALLY_TEST_TIER says how many, TALLY_SIM_SEED
// replays one with a trace.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "tests/sim/world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TALLY_SANITIZED 1
#include <sanitizer/common_interface_defs.h>
#endif

namespace tally::sim {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t schedules() {
  const std::string_view tier = environment("TALLY_TEST_TIER");
  const std::uint64_t count = tier == "fast" ? 1000 : tier == "soak" ? 200'000 : 10'000;
  return environment("TALLY_SANITIZER").empty() ? count : count / 10;
}

// A crash names its seed too: the line is ready before the schedule runs.
char crash_line[128];
std::size_t crash_line_bytes = 0;

void print_seed() {
  static_cast<void>(!::write(STDERR_FILENO, crash_line, crash_line_bytes));
}

void on_crash(int signal) {
  print_seed();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void prepare_for_crash(std::uint64_t seed) {
  const auto end = fmt::format_to_n(crash_line, sizeof crash_line,
                                    "\nseed {0} crashed; replay: TALLY_SIM_SEED={0} {1}\n", seed,
                                    "build/tests/sim/sim");
  crash_line_bytes = std::min(end.size, sizeof crash_line);
}

void catch_crashes() {
#if defined(TALLY_SANITIZED)
  __sanitizer_set_death_callback(print_seed);
#endif
  ::signal(SIGABRT, on_crash);
#if !defined(TALLY_SANITIZED)
  ::signal(SIGSEGV, on_crash);
#endif
}

struct Totals {
  std::uint64_t rounds = 0;
  std::uint64_t corrupted = 0;
};

// What is wrong with the seed; empty when nothing is.
std::string run(std::uint64_t seed, Memory& memory, const Trace& trace, Totals& totals) {
  prepare_for_crash(seed);
  const Schedule schedule = make_schedule(seed);
  try {
    World world(schedule, memory, trace);
    world.run();
    totals.rounds += world.rounds();
    totals.corrupted += world.corrupted();
  } catch (const std::exception& error) {
    return fmt::format("{}\n  {}", error.what(), describe(schedule));
  }
  return "";
}

TEST(Sim, EverySchedule) {
  Memory memory;
  Totals totals;
  catch_crashes();
  if (const auto seed = environment("TALLY_SIM_SEED"); !seed.empty()) {
    const std::string wrong = run(std::stoull(std::string(seed)), memory, Trace(true), totals);
    EXPECT_EQ(wrong, "");
    return;
  }
  const Trace silent(false);
  const auto start = std::chrono::steady_clock::now();
  int failures = 0;
  for (std::uint64_t seed = 1; seed <= schedules() && failures < 5; ++seed) {
    const std::string wrong = run(seed, memory, silent, totals);
    if (wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << " failed; replay: TALLY_SIM_SEED=" << seed
                  << " build/tests/sim/sim\n  " << wrong;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_GT(totals.corrupted, schedules() / 10);
  fmt::print("{} schedules, {} rounds, {} damaged pulls, {:.1f} s\n", schedules(), totals.rounds,
             totals.corrupted, seconds.count());
}

// The damage that checksums mend is damage: without them, schedules that have it end with wrong
// results, of which the judge tells. (Not all do: a bit may vanish in a rounding, or in a maximum.)
TEST(Sim, WithoutChecksumsDamageIsSeen) {
  Memory memory;
  const Trace silent(false);
  int struck = 0;
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Schedule schedule = make_schedule(seed);
    const bool healthy = std::all_of(schedule.jobs.begin(), schedule.jobs.end(),
                                     [](const JobPlan& job) { return job.healthy(); });
    if (!healthy) continue;
    for (JobPlan& job : schedule.jobs) {
      job.checksums = 0;
      job.corruption = 0.1;
    }
    World world(schedule, memory, silent);
    try {
      world.run();
    } catch (const Violation&) {
      ++seen;
    }
    struck += world.corrupted() > 0 ? 1 : 0;
  }
  EXPECT_GT(struck, 20);
  EXPECT_GT(seen, struck / 2);
  EXPECT_LE(seen, struck);
}

}  // namespace
}  // namespace tally::sim
