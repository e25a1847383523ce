// Finds out that a peer no longer responds: it has open operations, and none of them has ended or
// moved on for a while. The peer is stopped, cut off or gone without notice. Every session has a
// watch. The watch reads no clock: its caller says how much time has passed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace tally::transport::onesided {

// One thread. No function fails.
class StallWatch {
 public:
  // A peer is lost when none of its operations has ended or moved on for this long. Verdicts wait
  // for the operations under way, so this must be shorter than the time that clients wait for
  // verdicts.
  static constexpr Nanos kStalled = 4 * kSecond;

  // The network has one more operation, and has ended one.
  void start() { ++under_way_; }
  void end() {
    --under_way_;
    ++progress_;
  }
  // Bytes of an operation have got through. For networks that see them.
  void move_on() { ++progress_; }
  // waiting: operations that the network has not taken yet. passed: time since the last call.
  // Returns the number of open operations when the peer is lost, else 0.
  std::size_t stalled(std::size_t waiting, Nanos passed);

 private:
  std::size_t under_way_ = 0;        // operations that the network has
  std::uint64_t progress_ = 0;       // number of calls of end() and move_on()
  std::uint64_t progress_seen_ = 0;  // progress_ at the last stalled()
  Nanos idle_ = 0;                   // for so long there was no progress
};

}  // namespace tally::transport::onesided
