// A job's operations at one shard: pools sized at admission, found by (tree, group, tag, round). A
// notice within its session's credit always has a place; nothing here allocates after construction.
// Room that has never been used is reserved, and not touched: the kernel gives pages for what is.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/operation.h"

namespace tally::protocol {

class OperationTable {
 public:
  // Of so many members (ranks, and branches behind them), with room for announcers x credit
  // announcements, each possibly of an operation of its own, and for `credit` failed operations
  // that wait for late ranks. A rank is one announcer, a branch one in each of its trees.
  // Of each tag the last round that has ended is remembered, in each of so many trees.
  OperationTable(std::uint16_t members, std::uint32_t credit, std::uint32_t announcers,
                 std::uint32_t trees = 1);

  // Bytes that a table of this size holds: what admission reserves.
  static std::uint64_t footprint(std::uint16_t members, std::uint32_t credit,
                                 std::uint32_t announcers, std::uint32_t trees = 1);

  Slot find(const OperationKey& key) const;
  // A new operation in state kGathering, that so many members announce. Precondition: there is none
  // with this key, and its announcer is within credit.
  Slot create(const OperationKey& key, std::uint16_t children);
  // Closes its round if all of them have announced it.
  void erase(Slot slot);

  // Has this round, or a later one of its tag, been announced by all children and ended? Then a
  // notice of it has arrived twice: each rank goes through the rounds of a tag in order. Remembered
  // for as many tags as there is room for, the last ones first.
  bool closed(const OperationKey& key) const;

  OperationRecord& operator[](Slot slot) { return operations_[slot]; }
  const OperationRecord& operator[](Slot slot) const { return operations_[slot]; }
  std::uint32_t size() const { return live_; }
  Slot capacity() const { return capacity_; }
  // Slots from here on have never had an operation.
  Slot used() const { return static_cast<Slot>(operations_.size()); }

  // Marks the child as having announced; false when it had.
  bool mark(Slot slot, std::uint16_t child);
  bool marked(Slot slot, std::uint16_t child) const;

  void park(OperationRecord& operation, const Announcement& announcement);
  // Frees the operation's announcements.
  void unpark(OperationRecord& operation);
  // Relinks the announcements in the order of members: ranks, then branches. Precondition: all are
  // parked.
  void order_by_rank(OperationRecord& operation);

  Announcement& announcement(Slot slot) { return announcements_[slot]; }
  const Announcement& announcement(Slot slot) const { return announcements_[slot]; }

 private:
  struct Closed {
    bool any = false;
    std::uint16_t group = 0;
    std::uint32_t tree = 0;
    std::uint32_t tag = 0;
    std::uint32_t round = 0;
  };

  static std::uint32_t hash(const OperationKey& key);
  std::uint32_t home(const OperationKey& key) const;
  std::size_t closed_index(const OperationKey& key) const;
  void enter(Slot slot);
  void widen_index();
  void unindex(const OperationKey& key);

  std::uint16_t members_;
  std::uint32_t words_;  // of 64 bits, per operation, in marks_
  Slot capacity_;
  std::vector<OperationRecord> operations_;
  std::vector<Slot> free_operations_;
  std::vector<std::uint64_t> marks_;
  std::vector<Announcement> announcements_;
  std::vector<Slot> free_announcements_;
  std::vector<Slot> by_member_;  // scratch of order_by_rank: kNone
  // Open addressing, linear probing; a power of two, by the most operations that there have been.
  std::vector<Slot> index_;
  std::vector<Closed> closed_;  // by hash of tree, group and tag; a power of two
  std::uint32_t live_ = 0;
};

}  // namespace tally::protocol
