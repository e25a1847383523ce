// A monotonic clock for a loop that reads the time often. A reading costs less than half of
// monotonic_now(), because the clock extrapolates by the processor's time-stamp counter. The clock
// reads monotonic_now() again every millisecond. The counter's rate is known to some millionths, so
// the error stays below the clock's own resolution.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tally {

// Reads the time-stamp counter. Its rate is constant on every processor since 2010, whatever the
// core's frequency is.
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

// One thread uses an object of this class.
class CycleClock {
 public:
  // Makes a clock that advances only by reach(). Tests and simulations pass the time as an
  // argument.
  CycleClock() = default;

  // Makes a clock that runs with monotonic_now(). Measures the counter's rate, which takes about 10
  // ms.
  static CycleClock calibrated();

  // Moves the clock forward to `now`. Does nothing when the clock is already later.
  void reach(Nanos now) { latest_ = std::max(latest_, now); }

  // Returns the time. The time never decreases.
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

  // Returns the counter's cycles per nanosecond, or 0 when the clock does not run by itself. The
  // core's own frequency may be higher or lower.
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
  std::uint64_t base_cycles_ = 0;  // the counter's value at base_
  Nanos latest_ = 0;
};

}  // namespace tally
