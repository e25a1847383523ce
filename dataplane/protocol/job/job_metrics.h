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
  // The ranks that announced first and last; kNoRank when that is a child node, or unknown.
  std::uint16_t first_rank = wire::kNoRank;
  std::uint16_t last_rank = wire::kNoRank;
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Verdict verdict;
  std::uint64_t count = 0;  // elements of the part
  Nanos notice = 0;         // time of the first notice
  Nanos last_notice = 0;
  Nanos ready = 0;
  Nanos started = 0;
  Nanos pulled = 0;
  Nanos summed = 0;
  Nanos completed = 0;  // the end; when it succeeded, the result was everywhere
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
};

// The latest operations of a job. A new record overwrites the oldest. The ring always keeps kLatest
// records, for reports about jobs that are stuck or have failed. A trace keeps more of them, and
// takes each once. Only add() is on the path of operations; the other functions may allocate.
class TraceRing {
 public:
  static constexpr std::size_t kLatest = 64;

  TraceRing() : records_(kLatest) {}

  void add(const TraceRecord& record) {
    records_[next_] = record;
    if (++next_ == records_.size()) next_ = 0;
    ++added_;
  }

  // Returns the latest records, at most kLatest, oldest first.
  std::vector<TraceRecord> latest() const;

  // Begins a trace of `records` records, or ends it with 0. take() returns records from now on.
  void trace(std::size_t records);

  struct Taken {
    std::vector<TraceRecord> records;  // oldest first
    std::uint64_t dropped = 0;         // overwritten before take() returned them
  };
  // Returns the records since the last call. Returns none when no trace has begun.
  Taken take();

 private:
  std::vector<TraceRecord> newest(std::uint64_t count) const;

  std::vector<TraceRecord> records_;
  std::size_t next_ = 0;  // index of the next record
  std::size_t traced_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t taken_ = 0;
};

// An operation has ended: adds it to the totals, the rank counters and the trace of its job.
void account(Job& job, const OperationRecord& operation, Nanos now);

// A rank has announced an operation after its job was broken. Adds the first one to the trace, so
// that reports show what the loss did.
void account_refused(Job& job, const OperationKey& key, std::uint16_t part, Nanos now);

}  // namespace tally::protocol
