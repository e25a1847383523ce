// Counters of a shard for a job, from the moment when the job was added. docs/metrics.md defines
// each figure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "dataplane/partition/collective.h"
#include "dataplane/protocol/operations/operation.h"

namespace tally::protocol {

struct Job;

// Sums over the parts that moved data and succeeded; barriers are not among them. The times of a
// part are means over its children here. The five times add up to the time from the child's notice
// to the completion.
struct JobTotals {
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;  // of all ranks' inputs
  Nanos waiting = 0;
  Nanos queueing = 0;
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;

  JobTotals& operator+=(const JobTotals& other);
};

struct RankCounters {
  std::uint64_t notices = 0;
  std::uint64_t completions = 0;
  std::uint64_t failures = 0;
  std::uint64_t bytes_in = 0;   // of the rank's contributions
  std::uint64_t bytes_out = 0;  // of the rank's results
  // Inputs of tiles that did not match the rank's checksums, repeats included.
  std::uint64_t damaged = 0;
  std::uint64_t times_last = 0;
  // Sum over the operations that the rank announced last: the time behind the last notice but one.
  Nanos lateness = 0;

  RankCounters& operator+=(const RankCounters& other);
};

// The times of one part of an operation. A time is 0 when the event did not happen.
struct TraceRecord {
  OperationKey key;
  std::uint16_t part = 0;
  std::uint16_t last_rank = 0;
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Status status = Status::kOk;
  std::uint64_t count = 0;  // elements of the part
  Nanos notice = 0;         // time of the first notice
  Nanos ready = 0;
  Nanos started = 0;
  Nanos pulled = 0;
  Nanos summed = 0;
  Nanos completed = 0;  // the end; when it succeeded, the result was everywhere
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
};

// The latest operations of a job. The size is fixed: a new record overwrites the oldest, and take()
// counts the records that were lost.
class TraceRing {
 public:
  explicit TraceRing(std::size_t records) : records_(records) {}

  void add(const TraceRecord& record) { records_[added_++ % records_.size()] = record; }

  struct Taken {
    std::vector<TraceRecord> records;  // oldest first
    std::uint64_t dropped = 0;         // overwritten before take() returned them
  };
  // Returns all records and empties the ring. It allocates, so only control may call it.
  Taken take();

 private:
  std::vector<TraceRecord> records_;
  std::uint64_t added_ = 0;
  std::uint64_t taken_ = 0;
};

// An operation has ended: adds it to the totals, the rank counters and the trace of its job.
void account(Job& job, const OperationRecord& operation, Nanos now);

}  // namespace tally::protocol
