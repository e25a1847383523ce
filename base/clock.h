// Time is an argument: whoever decides something by time takes a Nanos `now`, and only the
// outermost loop reads the clock. So every timeout is a unit test without a sleep.
#pragma once

#include <time.h>

#include <cstdint>

namespace tally {

// Nanoseconds on the monotonic clock, or a span of them.
using Nanos = std::int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kForever = INT64_MAX;

// A vDSO read: no system call.
inline Nanos monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace tally
