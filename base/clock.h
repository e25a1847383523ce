// Time is an argument: a function that decides by time takes a Nanos `now`. Only the outermost loop
// reads the clock. So a unit test checks every timeout without a sleep.
#pragma once

#include <time.h>

#include <cstdint>

namespace tally {

// Nanoseconds: a point on the monotonic clock or a duration.
using Nanos = std::int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kForever = INT64_MAX;

// Reads the clock through the vDSO, without a system call.
inline Nanos monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace tally
