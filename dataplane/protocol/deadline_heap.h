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
  // Of slots below this. Reserves room for all, and touches what is used.
  explicit DeadlineHeap(Slot capacity) {
    heap_.reserve(capacity);
    place_.reserve(capacity);
  }

  Nanos earliest() const { return heap_.empty() ? kForever : heap_.front().when; }
  Slot earliest_slot() const { return heap_.front().slot; }  // precondition: not empty

  void insert(Slot slot, Nanos when) {
    if (slot >= place_.size()) place_.resize(slot + std::size_t{1}, kNone);
    heap_.push_back(Entry{when, slot});
    place_[slot] = static_cast<Slot>(heap_.size() - 1);
    rise(place_[slot]);
  }

  // Does nothing when the slot has none.
  void remove(Slot slot) {
    const Slot hole = slot < place_.size() ? place_[slot] : kNone;
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
  std::vector<Slot> place_;  // by slot, of those that have had one: index in heap_, or kNone
};

}  // namespace tally::protocol
