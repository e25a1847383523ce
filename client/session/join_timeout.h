// How long a rank looks for the coordinator of its job. Pure.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace tally::client {

// When a rank stops asking for its job: at its deadline, or some time after the first answer that
// the job is unavailable. In that time nodes can join a coordinator that has just started, or elect
// the next one.
class JoinTimeout {
 public:
  explicit JoinTimeout(Nanos deadline) : deadline_(deadline) {}
  void answered(Nanos now) { first_ = std::min(first_, now); }
  // The nodes elect their coordinator, which takes longer.
  void set_elected() { joining_ = kElecting; }
  bool is_over(Nanos now) const {
    return now >= deadline_ || (first_ <= now && now - first_ >= joining_);
  }

 private:
  static constexpr Nanos kJoining = 1 * kSecond;
  static constexpr Nanos kElecting = 15 * kSecond;

  Nanos deadline_;
  Nanos first_ = kForever;
  Nanos joining_ = kJoining;
};

}  // namespace tally::client
