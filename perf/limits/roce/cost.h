// What a loop costs: cycles of the time-stamp counter in polls that found something. So waiting for
// the other end costs nothing. A poll does not count if the scheduler took the processor away in
// it.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "base/system/cycle_clock.h"

namespace tally::perf {

// What a poll did.
struct Moved {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;  // of payload
  bool found = false;       // it did something, even if it moved nothing
};

struct Cost {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t polls = 0;  // that found something
  std::uint64_t cycles = 0;
  std::uint64_t cut = 0;  // polls that do not count
};

// One thread.
class CycleMeter {
 public:
  // Starts anew.
  void reset() {
    cost_ = Cost{};
    switches_ = involuntary_switches();
  }

  // Calls `poll`, which returns Moved. Returns whether it found something.
  template <typename Poll>
  bool measure(Poll poll) {
    const std::uint64_t begin = read_cycles();
    const Moved moved = poll();
    const std::uint64_t cycles = read_cycles() - begin;
    if (!moved.found) return false;
    if (cycles > kSuspicious && was_interrupted()) {
      ++cost_.cut;
      return true;
    }
    cost_.packets += moved.packets;
    cost_.bytes += moved.bytes;
    cost_.cycles += cycles;
    ++cost_.polls;
    return true;
  }

  const Cost& cost() const { return cost_; }

 private:
  // Some 0.2 ms. Only longer polls ask the kernel, because the question costs as much as a packet.
  static constexpr std::uint64_t kSuspicious = 500'000;

  static long involuntary_switches() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }
  bool was_interrupted() {
    const long before = switches_;
    switches_ = involuntary_switches();
    return switches_ != before;
  }

  Cost cost_;
  long switches_ = 0;
};

}  // namespace tally::perf
