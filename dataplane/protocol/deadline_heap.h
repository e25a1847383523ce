// Deadlines of operations, earliest first: a binary heap that knows where each one stands, so that
// an operation that ends takes its deadline with it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "dataplane/protocol/operation.h"

namespace tally::protocol {

class DeadlineHeap {
 public:
  explicit DeadlineHeap(Slot capacity) : place_(capacity, kNone) { heap_.reserve(capacity); }

  Nanos earliest() const { return heap_.empty() ? kForever : heap_.front().when; }
  Slot earliest_slot() const { return heap_.front().slot; }  // precondition: not empty

  void insert(Slot slot, Nanos when) {
    heap_.push_back(Entry{when, slot});
    place_[slot] = static_cast<Slot>(heap_.size() - 1);
    rise(place_[slot]);
  }

  // Does nothing when the slot has none.
  void remove(Slot slot) {
    const Slot hole = place_[slot];
    if (hole == kNone) return;
    place_[slot] = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (hole == heap_.size()) return;
    put(hole, last);
    rise(hole);
    sink(place_[last.slot]);
  }

 private:
  struct Entry {
    Nanos when;
    Slot slot;
  };

  void put(Slot at, Entry entry) {
    heap_[at] = entry;
    place_[entry.slot] = at;
  }
  void swap(Slot a, Slot b) {
    const Entry entry = heap_[a];
    put(a, heap_[b]);
    put(b, entry);
  }
  void rise(Slot at) {
    while (at > 0 && heap_[at].when < heap_[(at - 1) / 2].when) {
      swap(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  void sink(Slot at) {
    for (;;) {
      Slot least = at;
      for (Slot child : {2 * at + 1, 2 * at + 2}) {
        if (child < heap_.size() && heap_[child].when < heap_[least].when) least = child;
      }
      if (least == at) return;
      swap(at, least);
      at = least;
    }
  }

  std::vector<Entry> heap_;
  std::vector<Slot> place_;  // by slot: index in heap_, or kNone
};

}  // namespace tally::protocol
