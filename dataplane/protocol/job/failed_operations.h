// The failed operations of a job that late children have yet to announce. A verdict is final for
// all ranks, so the job keeps it for them. It keeps at most `most` of them and forgets the oldest
// one first. The queue runs through the records of the job's operation table, which it borrows.
#pragma once

#include <cstdint>

#include "dataplane/protocol/operations/operation_table.h"

namespace tally::protocol {

class FailedOperations {
 public:
  FailedOperations(OperationTable& table, std::uint32_t most) : table_(table), most_(most) {}

  // Precondition: the operation's verdict is given, and no tile of it is in flight. Its
  // announcements have been answered, and are freed.
  void keep(PoolIndex index) {
    if (size_ == most_) forget(oldest_);
    OperationRecord& operation = table_[index];
    table_.unpark(operation);
    operation.state = OperationRecord::State::kFailed;
    operation.older_failed = newest_;
    operation.newer_failed = kNone;
    (newest_ == kNone ? oldest_ : table_[newest_].newer_failed) = index;
    newest_ = index;
    ++size_;
  }

  // Removes the operation from the queue and from the table.
  void forget(PoolIndex index) {
    const PoolIndex older = table_[index].older_failed;
    const PoolIndex newer = table_[index].newer_failed;
    (older == kNone ? oldest_ : table_[older].newer_failed) = newer;
    (newer == kNone ? newest_ : table_[newer].older_failed) = older;
    --size_;
    table_.erase(index);
  }
  // Does that when all children have the verdict.
  void forget_if_announced(PoolIndex index) {
    if (table_[index].announced == table_[index].children) forget(index);
  }

  PoolIndex oldest() const { return oldest_; }  // OperationRecord::newer_failed goes on; or kNone
  std::uint32_t size() const { return size_; }

 private:
  OperationTable& table_;
  std::uint32_t most_;
  PoolIndex oldest_ = kNone;
  PoolIndex newest_ = kNone;
  std::uint32_t size_ = 0;
};

}  // namespace tally::protocol
