// Where the time of one operation goes. From the moment it is ready every moment belongs to one
// stage, so the stages of an operation add up to what it took:
//   summing   a tile of it is being summed
//   pulling   else, and a pull of it is on its way while the shard sums nothing: exposed transfer
//   pushing   else, and a push of it is on its way while the shard sums nothing
//   queueing  the rest: it waits for the window, a tile slot, or the shard's core
// Before that it waits for the last rank's notice.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tally::protocol {

struct StageTimes {
  Nanos last_notice = 0;  // when all have come: it is ready
  Nanos previous_notice = 0;
  Nanos notice_delays = 0;  // behind the first notice, of all ranks together
  Nanos started = 0;        // the first tile's pulls were issued
  Nanos pulled = 0;         // the inputs of a tile were there, the last time
  Nanos summed = 0;         // a tile was summed, the last time
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
  Nanos booked = 0;             // up to here, on a clock that stands still while the shard sums
  std::uint16_t pulls = 0;      // tiles whose inputs are on their way
  std::uint16_t pushes = 0;     // tiles whose results are
  std::uint16_t last_rank = 0;  // who announced last

  void notice(std::uint16_t rank, Nanos first_notice, Nanos now) {
    previous_notice = last_notice;
    last_notice = now;
    notice_delays += now - first_notice;
    last_rank = rank;
  }

  // The four events of a tile. `busy`: how long the shard has summed so far, whatever it was.
  void pull(bool is_first, Nanos now, Nanos busy) {
    if (is_first) started = now;
    book(now - busy);
    ++pulls;
  }
  void sum(Nanos now, Nanos busy) {
    pulled = now;
    book(now - busy);
    --pulls;
  }
  // How long the sum took.
  Nanos push(Nanos now) {
    const Nanos span = now - pulled;
    summed = now;
    summing += span;
    ++pushes;
    return span;
  }
  void placed(Nanos now, Nanos busy) {
    book(now - busy);
    --pushes;
  }

 private:
  void book(Nanos idle_clock) {
    if (pulls > 0) {
      pulling += idle_clock - booked;
    } else if (pushes > 0) {
      pushing += idle_clock - booked;
    }
    booked = idle_clock;
  }
};

}  // namespace tally::protocol
