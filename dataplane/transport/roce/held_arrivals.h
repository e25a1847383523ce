// Packets of requests that wait until the responder delivers them: it may get them out of order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dataplane/transport/roce/port/port_queue.h"

namespace tally::transport::roce {

// One thread. Does not allocate once it has held as many arrivals before.
class HeldArrivals {
 public:
  // Early packets of all connections of a shard; the port needs its other frames. Where there are
  // so many, more of them count as lost.
  static constexpr std::size_t kMostEarly = 512;

  bool is_full() const { return held_.size() - free_.size() >= kMostEarly; }
  // Returns its handle.
  std::uint64_t hold(Arrival& arrival) {
    if (free_.empty()) {
      held_.emplace_back();
      free_.reserve(held_.capacity());  // drop() does not allocate
      free_.push_back(held_.size() - 1);
    }
    const std::uint64_t handle = free_.back();
    free_.pop_back();
    held_[handle] = std::move(arrival);
    return handle;
  }
  // Precondition, as of drop(): the handle is held.
  const Arrival& operator[](std::uint64_t handle) const { return held_[handle]; }
  void drop(std::uint64_t handle) {
    held_[handle].frame = Frame();
    free_.push_back(handle);
  }

 private:
  std::vector<Arrival> held_;  // by handle
  std::vector<std::uint64_t> free_;
};

}  // namespace tally::transport::roce
