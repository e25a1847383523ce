// Waiting policies that leave the core to other threads.
//
// IdlePolicy polls once more, then calls sched_yield between polls, then sleeps. More polls only
// delay other threads that wait for this core. With three processes on two cores, an operation of 4
// KiB took 5.6 us with four polls and 4.4 us with one. The time that a thread spends yielding
// follows the recent gaps between work. So a thread never sleeps through work that arrives every
// 100 us, and a quiet process uses no CPU time.
//
// A yield to a thread that computes returns one scheduler slice later (4 ms). A sleeping thread
// gets the core as soon as it wakes. So after a long yield the policy does not yield for a while
// and sleeps instead.
#pragma once

#include <sched.h>

#include <algorithm>

#include "base/clock.h"

namespace tally {

class IdlePolicy {
 public:
  enum class Step { kPoll, kYield, kSleep };

  static constexpr int kPolls = 1;
  static constexpr Nanos kMinYield = 50 * kMicrosecond;
  static constexpr Nanos kMaxYield = 1 * kMillisecond;
  // A yield that takes longer than this means that another thread computes.
  static constexpr Nanos kLong = 1 * kMillisecond;
  // A thread that computes on this core gets at most this share of the time by yields: 1 / 64.
  static constexpr Nanos kReserve = 64;

  // The last poll found work.
  void worked(Nanos now) {
    if (polls_ > 0) learn(now - idle_since_);
    polls_ = 0;
  }

  // The last poll found no work. Returns what to do before the next poll.
  Step next(Nanos now) {
    if (polls_ == 0) idle_since_ = now;
    if (polls_ < kPolls) {
      ++polls_;
      return Step::kPoll;
    }
    const bool may_yield = now >= no_yield_until_ && now - idle_since_ < yield_for();
    return may_yield ? Step::kYield : Step::kSleep;
  }

  // The last poll found no work. Returns at once for another poll, yields the core, or calls
  // `sleep`. `clock` returns the time.
  template <typename Sleep, typename Yield = int (*)(), typename Clock = Nanos (*)()>
  void rest(Nanos now, Sleep sleep, Yield yield = ::sched_yield, Clock clock = monotonic_now) {
    const Step step = next(now);
    if (step == Step::kSleep) sleep();
    if (step != Step::kYield) return;
    const Nanos before = clock();
    yield();
    const Nanos after = clock();
    if (after - before > kLong) no_yield_until_ = after + kReserve * (after - before);
  }

  // Returns how long to yield before a sleep: twice the usual gap, or the minimum when that exceeds
  // the maximum.
  Nanos yield_for() const {
    return 2 * gap_ > kMaxYield ? kMinYield : std::max(2 * gap_, kMinYield);
  }

 private:
  void learn(Nanos gap) { gap_ += (std::min(gap, 4 * kMaxYield) - gap_) / 8; }

  int polls_ = 0;
  Nanos idle_since_ = 0;
  Nanos gap_ = 0;  // moving average of the gaps between work
  Nanos no_yield_until_ = 0;
};

// A thread that works for long periods calls offer() between pieces of work. offer() yields the
// core to threads that wait by sched_yield. Without it the scheduler makes them wait for a whole
// slice (4 ms). A thread that yields too returns the core within microseconds. A thread that
// computes keeps the core for a slice, so after a long yield offer() does nothing for a while.
class YieldPolicy {
 public:
  static constexpr Nanos kLong = 1 * kMillisecond;
  // A thread that computes on this core gets at most this share of the time by yields: 1 / 32.
  static constexpr Nanos kReserve = 32;

  // `clock` returns the time, and `yield` yields the core.
  template <typename Clock, typename Yield = int (*)()>
  void offer(Clock clock, Yield yield = ::sched_yield) {
    const Nanos before = clock();
    if (before < next_) return;
    yield();
    const Nanos away = clock() - before;
    if (away > kLong) next_ = before + away + kReserve * away;
  }

 private:
  Nanos next_ = 0;
};

}  // namespace tally
