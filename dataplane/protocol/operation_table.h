// A job's operations at one shard: pools sized at admission, found by (group, tag, round). A notice
// within its session's credit always has a place; nothing here allocates after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/operation.h"

namespace tally::protocol {

class OperationTable {
 public:
  // Room for ranks x credit announcements, each possibly of an operation of its own, and for
  // `credit` failed operations that wait for late ranks.
  OperationTable(std::uint16_t ranks, std::uint32_t credit);

  // Bytes that a table of this size holds: what admission reserves.
  static std::uint64_t footprint(std::uint16_t ranks, std::uint32_t credit);

  Slot find(const OperationKey& key) const;
  // A new operation in state kGathering. Precondition: there is none with this key, and its
  // announcer is within credit.
  Slot create(const OperationKey& key);
  void erase(Slot slot);

  OperationRecord& operator[](Slot slot) { return operations_[slot]; }
  const OperationRecord& operator[](Slot slot) const { return operations_[slot]; }
  std::uint32_t size() const { return live_; }
  Slot capacity() const { return static_cast<Slot>(operations_.size()); }

  // Marks the rank as having announced; false when it had.
  bool mark(Slot slot, std::uint16_t rank);
  bool marked(Slot slot, std::uint16_t rank) const;

  void park(OperationRecord& operation, const Announcement& announcement);
  // Frees the operation's announcements.
  void unpark(OperationRecord& operation);
  // Relinks the announcements in rank order. Precondition: every rank has announced once.
  void order_by_rank(OperationRecord& operation);

  Announcement& announcement(Slot slot) { return announcements_[slot]; }
  const Announcement& announcement(Slot slot) const { return announcements_[slot]; }

 private:
  std::uint32_t home(const OperationKey& key) const;
  void unindex(const OperationKey& key);

  std::uint16_t ranks_;
  std::uint32_t words_;  // of 64 bits, per operation, in marks_
  std::vector<OperationRecord> operations_;
  std::vector<Slot> free_operations_;
  std::vector<std::uint64_t> marks_;
  std::vector<Announcement> announcements_;
  std::vector<Slot> free_announcements_;
  std::vector<Slot> by_rank_;  // scratch of order_by_rank
  std::vector<Slot> index_;    // open addressing, linear probing; a power of two
  std::uint32_t live_ = 0;
};

}  // namespace tally::protocol
