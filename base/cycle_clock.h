// The monotonic clock for a loop that asks often: a reading costs less than half of what
// monotonic_now() does, since the processor's time-stamp counter carries it on. It is set by that
// clock again every millisecond, so that what it errs by (the counter's rate is known to some
// millionths) stays below its own resolution.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tally {

// The counter: constant in rate, whatever the core's frequency is, on every processor since 2010.
inline std::uint64_t read_cycles() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(monotonic_now());
#endif
}

// Used by one thread.
class CycleClock {
 public:
  // Stands still: for tests and simulations, whose time is an argument.
  CycleClock() = default;

  // Runs, on the clock of monotonic_now(); its rate is measured, which takes some 10 ms.
  static CycleClock calibrated();

  // It is `now`, or later.
  void reach(Nanos now) { latest_ = std::max(latest_, now); }

  // Never goes back.
  Nanos now() {
    const auto cycles = static_cast<double>(read_cycles() - base_cycles_);
    const auto passed = static_cast<Nanos>(cycles * nanos_per_cycle_);
    if (passed < kSetEvery) {
      reach(base_ + passed);
    } else {
      set();
    }
    return latest_;
  }

  // Of the counter, not of the core, which may run faster or slower. 0: stands still.
  double cycles_per_nano() const { return nanos_per_cycle_ > 0 ? 1 / nanos_per_cycle_ : 0; }

 private:
  static constexpr Nanos kSetEvery = kMillisecond;

  void set() {
    base_ = monotonic_now();
    base_cycles_ = read_cycles();
    reach(base_);
  }

  double nanos_per_cycle_ = 0;
  Nanos base_ = 0;
  std::uint64_t base_cycles_ = 0;  // at base_
  Nanos latest_ = 0;
};

}  // namespace tally
