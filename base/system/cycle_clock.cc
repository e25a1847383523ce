#include "base/system/cycle_clock.h"

namespace tally {
namespace {

constexpr Nanos kCalibration = 10 * kMillisecond;
constexpr int kTries = 16;

struct Reading {
  Nanos time = 0;
  std::uint64_t cycles = 0;
};

// Reads both clocks. Of several tries it returns the one with the fewest cycles around the reading.
Reading read_both() {
  Reading best;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = read_cycles();
    const Nanos time = monotonic_now();
    const std::uint64_t after = read_cycles();
    if (after - before >= least) continue;
    least = after - before;
    best = {time, before + least / 2};
  }
  return best;
}

}  // namespace

CycleClock CycleClock::calibrated() {
  const Reading first = read_both();
  const timespec pause{0, kCalibration};
  ::nanosleep(&pause, nullptr);
  const Reading last = read_both();
  CycleClock clock;
  clock.nanos_per_cycle_ =
      static_cast<double>(last.time - first.time) / static_cast<double>(last.cycles - first.cycles);
  clock.set();
  return clock;
}

}  // namespace tally
