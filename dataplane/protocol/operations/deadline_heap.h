// The deadlines of operations, earliest first. This is a binary heap that knows the index of each
// entry. So an operation that ends can remove its deadline.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "dataplane/protocol/operations/operation.h"

namespace tally::protocol {

class DeadlineHeap {
 public:
  // `capacity`: all operations have a smaller index. The constructor reserves room for all of them.
  // It writes to no memory, so the kernel gives pages only for the part that is used.
  explicit DeadlineHeap(PoolIndex capacity) {
    heap_.reserve(capacity);
    place_.reserve(capacity);
  }

  Nanos earliest() const { return heap_.empty() ? kForever : heap_.front().when; }
  // Precondition: not empty.
  PoolIndex earliest_operation() const { return heap_.front().operation; }

  void insert(PoolIndex operation, Nanos when) {
    if (operation >= place_.size()) place_.resize(operation + std::size_t{1}, kNone);
    heap_.push_back(Entry{when, operation});
    place_[operation] = static_cast<PoolIndex>(heap_.size() - 1);
    rise(place_[operation]);
  }

  // Does nothing when the operation has no deadline.
  void remove(PoolIndex operation) {
    const PoolIndex hole = operation < place_.size() ? place_[operation] : kNone;
    if (hole == kNone) return;
    place_[operation] = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (hole == heap_.size()) return;
    put(hole, last);
    rise(hole);
    sink(place_[last.operation]);
  }

 private:
  struct Entry {
    Nanos when;
    PoolIndex operation;
  };

  void put(PoolIndex at, Entry entry) {
    heap_[at] = entry;
    place_[entry.operation] = at;
  }
  void swap(PoolIndex a, PoolIndex b) {
    const Entry entry = heap_[a];
    put(a, heap_[b]);
    put(b, entry);
  }
  void rise(PoolIndex at) {
    while (at > 0 && heap_[at].when < heap_[(at - 1) / 2].when) {
      swap(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  void sink(PoolIndex at) {
    for (;;) {
      PoolIndex least = at;
      for (PoolIndex child : {2 * at + 1, 2 * at + 2}) {
        if (child < heap_.size() && heap_[child].when < heap_[least].when) least = child;
      }
      if (least == at) return;
      swap(at, least);
      at = least;
    }
  }

  std::vector<Entry> heap_;
  std::vector<PoolIndex> place_;  // by operation, up to the highest used: index in heap_, or kNone
};

}  // namespace tally::protocol
