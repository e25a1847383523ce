#include "dataplane/transport/onesided/stall_watch.h"

#include <algorithm>

namespace tally::transport::onesided {
namespace {

constexpr Nanos kLongestGap = 1 * kSecond;

}  // namespace

// Does not count time against the peer in which this thread slept or was stopped.
std::size_t StallWatch::stalled(std::size_t waiting, Nanos passed) {
  const std::size_t open = under_way_ + waiting;
  if (open == 0 || progress_ != progress_seen_) {
    progress_seen_ = progress_;
    idle_ = 0;
    return 0;
  }
  idle_ += std::min(passed, kLongestGap);
  return idle_ > kStalled ? open : 0;
}

}  // namespace tally::transport::onesided
