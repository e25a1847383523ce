// Measures how long a job takes to turn over its bytes in flight. A round begins with the bytes
// that are in flight. It ends when as many bytes have left. By Little's law this is the time that a
// byte stays. The measure costs two additions for each tile. A tile that never ends shows as a
// round that does not end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tally::protocol {

class Turnover {
 public:
  // `bytes` more are in flight.
  void take(std::uint64_t bytes, Nanos now) {
    if (in_flight_ == 0) began_ = now, left_ = bytes;
    in_flight_ += bytes;
  }

  // `bytes` have left. Returns whether a round has ended; last() then returns its length.
  bool give(std::uint64_t bytes, Nanos now) {
    in_flight_ -= bytes;
    if (bytes < left_) {
      left_ -= bytes;
      return false;
    }
    last_ = now - began_;
    began_ = now;
    left_ = in_flight_;
    return true;
  }

  std::uint64_t in_flight() const { return in_flight_; }
  // Returns the length of the last round that ended, or 0 when none has.
  Nanos last() const { return last_; }
  // Returns the larger of last() and the time of the round under way; only last() when no bytes are
  // in flight.
  Nanos at(Nanos now) const { return in_flight_ == 0 ? last_ : std::max(last_, now - began_); }

 private:
  std::uint64_t in_flight_ = 0;
  std::uint64_t left_ = 0;  // bytes of the round that have not left
  Nanos began_ = 0;
  Nanos last_ = 0;
};

}  // namespace tally::protocol
