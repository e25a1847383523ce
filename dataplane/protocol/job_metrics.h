// What a shard has counted for a job since it formed. docs/metrics.md defines each figure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "dataplane/protocol/collective.h"
#include "dataplane/protocol/operation.h"

namespace tally::protocol {

// Sums over the parts that moved data and succeeded (barriers do not). Times of a part are those of
// its mean rank, from the rank's notice to the completion; the five add up to that.
struct JobTotals {
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;  // of all inputs
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
  std::uint64_t bytes_in = 0;   // of its contributions
  std::uint64_t bytes_out = 0;  // of its results
  std::uint64_t damaged = 0;    // tiles' worth of its bytes that did not have their checksums
  std::uint64_t times_last = 0;
  Nanos lateness = 0;  // when last: behind the last but one; all together

  RankCounters& operator+=(const RankCounters& other);
};

// One part of an operation, as it went. What did not happen has the time 0.
struct TraceRecord {
  OperationKey key;
  std::uint16_t part = 0;
  std::uint16_t last_rank = 0;
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Status status = Status::kOk;
  std::uint64_t count = 0;  // elements of the part
  Nanos notice = 0;         // the first
  Nanos ready = 0;
  Nanos started = 0;
  Nanos pulled = 0;
  Nanos summed = 0;
  Nanos completed = 0;  // placed everywhere, where it succeeded
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
};

// The last operations of a job. Fixed in size: the oldest makes room, and is counted.
class TraceRing {
 public:
  explicit TraceRing(std::size_t records) : records_(records) {}

  void add(const TraceRecord& record) { records_[added_++ % records_.size()] = record; }

  struct Taken {
    std::vector<TraceRecord> records;  // oldest first
    std::uint64_t dropped = 0;         // overwritten before they could be taken
  };
  // All there is; the ring is empty afterwards. Allocates: for control.
  Taken take();

 private:
  std::vector<TraceRecord> records_;
  std::uint64_t added_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace tally::protocol
