// A descriptor that becomes readable at a given time. One thread at a time uses it.
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/system/fd.h"

namespace tally {

class Alarm {
 public:
  // fd() is -1 when the process has no descriptor left, with errno set.
  Alarm() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

  int fd() const { return timer_.get(); }
  // kForever means no alarm. Makes a system call only when the time changes.
  void set(Nanos when) {
    if (when == std::exchange(at_, when)) return;
    itimerspec time{};  // all zero: none
    if (when != kForever) time.it_value = {when / kSecond, when % kSecond};
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
  }
  // The time has come: the descriptor is not readable any more.
  void take() {
    at_ = kForever;
    std::uint64_t ticks = 0;
    static_cast<void>(!::read(timer_.get(), &ticks, sizeof ticks));
  }

 private:
  UniqueFd timer_;
  Nanos at_ = kForever;
};

}  // namespace tally
