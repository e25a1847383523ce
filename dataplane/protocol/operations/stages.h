// The stages of one operation. From the moment when the operation is ready, every moment belongs to
// one stage. So the stages of an operation add up to the time that it took.
//   summing   a tile of the operation is being summed
//   pulling   no tile of it is being summed; the shard sums nothing, and a pull of it is in flight
//   pushing   nor is a pull of it in flight; the shard sums nothing, and a push of it is in flight
//   queueing  none of these: it waits for the window, the end of a tile, or the shard's core
// Time in the stages pulling and pushing is transfer that no sum hides. Before the operation is
// ready, it waits for the last child's notice.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tally::protocol {

struct StageTimes {
  Nanos last_notice = 0;  // time of the latest notice; after the last one the operation is ready
  Nanos previous_notice = 0;
  Nanos notice_delays = 0;  // behind the first notice, summed over all children
  Nanos started = 0;        // time when the first tile's pulls were issued
  Nanos pulled = 0;         // latest time when the inputs of a tile were there
  Nanos summed = 0;         // latest time when a tile was summed
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
  Nanos booked = 0;  // stages are counted up to here, on a clock that stops while the shard sums
  std::uint16_t pulls = 0;      // tiles whose inputs are on their way
  std::uint16_t pushes = 0;     // tiles whose results are on their way
  std::uint16_t last_rank = 0;  // child of the latest notice

  void notice(std::uint16_t rank, Nanos first_notice, Nanos now) {
    previous_notice = last_notice;
    last_notice = now;
    notice_delays += now - first_notice;
    last_rank = rank;
  }

  // The next functions are the four events of a tile. `busy`: the time that the shard has spent on
  // sums of any operation until `now`.
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
  // A group of inputs has been added up, from `began` to `now`, and other groups of the tile
  // follow. Returns the time that this took.
  Nanos add_up(Nanos began, Nanos now, Nanos busy) {
    book(began - busy);
    summing += now - began;
    return now - began;
  }
  // Returns the time that the sum took.
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
