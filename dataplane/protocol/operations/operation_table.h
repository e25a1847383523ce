// The operations of a job at one shard, found by (tree, group, tag, round). Admission fixes the
// size of the pools. A notice within its session's credit always has a place, and no function
// allocates after construction. The constructor reserves room and writes to little of it. So the
// kernel gives pages only for the part that is used.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/operations/operation.h"

namespace tally::protocol {

class OperationTable {
 public:
  // `members`: the ranks, and the child nodes numbered behind them. The table has room for
  // announcers x credit announcements, and each may be of a different operation. It also has room
  // for `credit` failed operations that wait for late ranks. A rank counts as one announcer. A
  // child node counts as one in each of its trees. For each tag the table remembers the last round
  // that has ended, in each of `trees` trees.
  OperationTable(std::uint16_t members, std::uint32_t credit, std::uint32_t announcers,
                 std::uint32_t trees = 1);

  // Returns the bytes that a table of this size holds. Admission reserves them.
  static std::uint64_t footprint(std::uint16_t members, std::uint32_t credit,
                                 std::uint32_t announcers, std::uint32_t trees = 1);

  PoolIndex find(const OperationKey& key) const;
  // Adds an operation in state kGathering, which `children` children announce. Preconditions: no
  // operation has this key, and its announcer is within credit.
  PoolIndex create(const OperationKey& key, std::uint16_t children);
  // Removes the operation. If all children have announced it, this closes its round.
  void erase(PoolIndex index);

  // Returns whether all children have announced this round of the tag, or a later one, and that
  // round has ended. A notice of this round is then a duplicate, because each rank goes through the
  // rounds of a tag in order. The table has room for a number of tags, and forgets the older one of
  // two that share an entry.
  bool closed(const OperationKey& key) const;

  OperationRecord& operator[](PoolIndex index) { return operations_[index]; }
  const OperationRecord& operator[](PoolIndex index) const { return operations_[index]; }
  std::uint32_t size() const { return live_; }
  PoolIndex capacity() const { return capacity_; }
  // Entries from this one on have never had an operation.
  PoolIndex used() const { return static_cast<PoolIndex>(operations_.size()); }

  // Marks the child as having announced. Returns false when it was marked already.
  bool mark(PoolIndex index, std::uint16_t child);
  bool marked(PoolIndex index, std::uint16_t child) const;

  void park(OperationRecord& operation, const Announcement& announcement);
  // Frees the operation's announcements.
  void unpark(OperationRecord& operation);
  // Links the announcements in the order of children: ranks, then child nodes. Precondition: the
  // announcements of all children are parked.
  void order_by_rank(OperationRecord& operation);

  Announcement& announcement(PoolIndex index) { return announcements_[index]; }
  const Announcement& announcement(PoolIndex index) const { return announcements_[index]; }

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
  void enter(PoolIndex operation);
  void widen_index();
  void unindex(const OperationKey& key);

  std::uint16_t members_;
  std::uint32_t words_;  // of 64 bits, for each operation, in marks_
  PoolIndex capacity_;
  std::vector<OperationRecord> operations_;
  std::vector<PoolIndex> free_operations_;
  std::vector<std::uint64_t> marks_;
  std::vector<Announcement> announcements_;
  std::vector<PoolIndex> free_announcements_;
  std::vector<PoolIndex>
      by_member_;  // scratch of order_by_rank(); every entry is kNone between calls
  // A hash table with open addressing and linear probing. Its size is a power of two, and grows
  // with the most operations that the table has held at once.
  std::vector<PoolIndex> index_;
  std::vector<Closed> closed_;  // by hash of tree, group and tag; the size is a power of two
  std::uint32_t live_ = 0;
};

}  // namespace tally::protocol
