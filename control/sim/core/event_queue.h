// The events of a simulation by their times. Events of one time come in the order in which they
// were added, so the same input gives the same run on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tally::simulator {

struct Event {
  double time = 0;          // seconds
  std::uint64_t order = 0;  // among events of one time
  std::uint32_t kind = 0;   // the owner of the queue knows what it means
  std::uint32_t number = 0;
};

// A binary heap: add() and take() are O(log events).
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  double next_time() const { return heap_.front().time; }  // precondition: not empty

  void add(double time, std::uint32_t kind, std::uint32_t number) {
    heap_.push_back({time, added_++, kind, number});
    std::push_heap(heap_.begin(), heap_.end(), comes_after);
  }

  Event take() {  // precondition: not empty
    std::pop_heap(heap_.begin(), heap_.end(), comes_after);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool comes_after(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  std::vector<Event> heap_;
  std::uint64_t added_ = 0;
};

}  // namespace tally::simulator
