// How to wait without stealing the core from whoever works: one poll more, then sched_yield between
// polls, then sleep. More polls only delay whoever waits for this core: with three processes on two
// cores an operation of 4 KiB took 5.6 us with four polls and 4.4 us with one. The time spent
// yielding follows the gaps seen lately, so that work which comes every 100 us is never slept
// through and a quiet process costs nothing.
//
// A yield to a neighbour that computes comes back a slice later (4 ms), while a sleeper that is
// woken gets the core at once. So where a yield has taken long there is none for a while: the next
// wait is a sleep.
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
  static constexpr Nanos kLong = 1 * kMillisecond;  // for one yield
  static constexpr Nanos kReserve =
      64;  // the share of time that a computing neighbour gets: 1 / 64

  // There was work.
  void worked(Nanos now) {
    if (polls_ > 0) learn(now - idle_since_);
    polls_ = 0;
  }

  // There was none: what to do before the next poll.
  Step next(Nanos now) {
    if (polls_ == 0) idle_since_ = now;
    if (polls_ < kPolls) {
      ++polls_;
      return Step::kPoll;
    }
    const bool may_yield = now >= no_yield_until_ && now - idle_since_ < yield_for();
    return may_yield ? Step::kYield : Step::kSleep;
  }

  // There was none: polls again, gives up the core, or calls `sleep`. `clock` gives the time.
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

  // Twice the usual gap where that can be bridged; where it cannot, the least.
  Nanos yield_for() const {
    return 2 * gap_ > kMaxYield ? kMinYield : std::max(2 * gap_, kMinYield);
  }

 private:
  void learn(Nanos gap) { gap_ += (std::min(gap, 4 * kMaxYield) - gap_) / 8; }

  int polls_ = 0;
  Nanos idle_since_ = 0;
  Nanos gap_ = 0;  // moving average
  Nanos no_yield_until_ = 0;
};

// Whoever works for long offers the core in between to those who wait for it by sched_yield: the
// scheduler lets them wait for a whole slice (4 ms) otherwise. What yields too gives the core back
// within microseconds. What computes takes a slice for each offer: then there is none for a while.
class Courtesy {
 public:
  static constexpr Nanos kLong = 1 * kMillisecond;
  static constexpr Nanos kReserve =
      32;  // the share of time that a computing neighbour gets: 1 / 32

  // `clock` gives the time; `yield` gives up the core.
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
