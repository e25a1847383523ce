// The size of tiles. Large tiles move bytes at the memory's full speed. But an operation of a few
// bytes waits for a tile at each of its steps: at the shard, and for the core when its rank and the
// shard share one. So tiles are small while small operations of another job arrive at any shard of
// the node. They stay small for some bytes after the last of these operations.
//
// Measured with 4 KiB operations of one job beside 256 MiB operations of another on 2 cores. With
// tiles of 256 KiB, of which 1 MiB starts at a time, p99 of the small ones is 270 us. With one tile
// of 16 KiB at a time it is 13 us (5 us alone). The small tiles cost the large operations a quarter
// of their speed (docs/perf.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {

// The shards of a node share one object of this class. It notifies each shard that a small
// operation has arrived, and of the job of the latest one. Any thread may call any function. When
// two threads note at the same moment, one note may be lost, which does no harm.
class alignas(64) SmallOperations {
 public:
  void note(JobId job) {
    const std::uint64_t count = (last_.load(std::memory_order_relaxed) + 1) % kCounts;
    last_.store(job * kCounts + count, std::memory_order_relaxed);
  }

  // A value that changes with every note.
  std::uint64_t last() const { return last_.load(std::memory_order_relaxed); }
  static JobId job_of(std::uint64_t last) { return static_cast<JobId>(last / kCounts); }

 private:
  static constexpr std::uint64_t kCounts = std::uint64_t{1} << 32;

  std::atomic<std::uint64_t> last_ = 0;
};

class TileSizing {
 public:
  // bytes; an operation that reads and stores at most this much is small
  static constexpr std::uint64_t kSmall = 64 << 10;
  // bytes of the inputs of a fine tile, of all ranks together; a tile of one cut may have more
  static constexpr std::uint64_t kFineTile = 32 << 10;
  // bytes of inputs; after this many without a note tiles are large again
  static constexpr std::uint64_t kFineFor = 4 << 20;

  // `small` is borrowed. When it is null, this object counts the operations of this shard alone.
  explicit TileSizing(SmallOperations* small) : small_(small != nullptr ? *small : own_) {}
  TileSizing(const TileSizing&) = delete;
  TileSizing& operator=(const TileSizing&) = delete;

  // The caller reports an operation that has become ready. `traffic`: the bytes that it reads and
  // stores.
  void ready(JobId job, std::uint64_t traffic) {
    if (traffic <= kSmall) small_.note(job);
  }

  // Returns whether a tile of this job should be small. The caller should then look for new events
  // before it starts the next tile.
  bool fine(JobId job) {
    if (const std::uint64_t last = small_.last(); last != seen_) {
      const JobId whose = SmallOperations::job_of(last);
      hasty_ = left_ > 0 && hasty_ != whose ? kSeveral : whose;
      left_ = kFineFor;
      seen_ = last;
    }
    return left_ > 0 && hasty_ != job;
  }

  // The caller reports a tile that it has started. `bytes`: the inputs that the tile reads.
  void started(std::uint64_t bytes) { left_ -= std::min(left_, bytes); }

 private:
  static constexpr JobId kSeveral = UINT32_MAX;

  SmallOperations own_;
  SmallOperations& small_;
  std::uint64_t seen_ = 0;
  // The job of the latest small operations; kSeveral when several jobs had some.
  JobId hasty_ = kSeveral;
  std::uint64_t left_ = 0;
};

}  // namespace tally::protocol
