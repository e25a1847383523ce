// How finely the work is cut. Large tiles move bytes at the memory's full speed; but who posts
// small operations beside them waits for a tile at each of its steps: at the shard, and for the
// core where that works. So tiles are small for as long as another job's small operations come, at
// whichever shard, and for some bytes after the last of them.
//
// Measured with 4 KiB operations of one job beside 256 MiB of another on 2 cores: p99 of 270 us
// with tiles of 256 KiB and 1 MiB started at a time, 13 us with one tile of 16 KiB at a time (5 us
// alone); which costs the large ones a quarter of their speed (docs/perf.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "dataplane/protocol/tile_scheduler.h"

namespace tally::protocol {

// What the shards of a node tell each other of small operations: whose came last, and that one
// came. Any thread may call anything; a note that is lost to another at the same moment is no harm.
class alignas(64) SmallOperations {
 public:
  void note(JobSlot job) {
    const std::uint64_t count = (last_.load(std::memory_order_relaxed) + 1) % kCounts;
    last_.store(job * kCounts + count, std::memory_order_relaxed);
  }

  // Changes with every note.
  std::uint64_t last() const { return last_.load(std::memory_order_relaxed); }
  static JobSlot job_of(std::uint64_t last) { return static_cast<JobSlot>(last / kCounts); }

 private:
  static constexpr std::uint64_t kCounts = std::uint64_t{1} << 32;

  std::atomic<std::uint64_t> last_ = 0;
};

class Grain {
 public:
  // An operation that reads and stores at most this much is small.
  static constexpr std::uint64_t kSmall = 64 << 10;
  // Inputs of a fine tile, all ranks together, as far as the cut into blocks allows.
  static constexpr std::uint64_t kFineTile = 32 << 10;
  // Inputs that are started until the grain is coarse again.
  static constexpr std::uint64_t kFineFor = 4 << 20;

  // `small` is borrowed; without it this shard is alone.
  explicit Grain(SmallOperations* small) : small_(small != nullptr ? *small : own_) {}
  Grain(const Grain&) = delete;
  Grain& operator=(const Grain&) = delete;

  // An operation that reads and stores so many bytes has become ready.
  void ready(JobSlot job, std::uint64_t traffic) {
    if (traffic <= kSmall) small_.note(job);
  }

  // True: a tile of this job should be small, and what is new be looked at after it.
  bool fine(JobSlot job) {
    if (const std::uint64_t last = small_.last(); last != seen_) {
      const JobSlot whose = SmallOperations::job_of(last);
      hasty_ = left_ > 0 && hasty_ != whose ? kSeveral : whose;
      left_ = kFineFor;
      seen_ = last;
    }
    return left_ > 0 && hasty_ != job;
  }

  // A tile that reads so many bytes was started.
  void started(std::uint64_t bytes) { left_ -= std::min(left_, bytes); }

 private:
  static constexpr JobSlot kSeveral = UINT32_MAX;

  SmallOperations own_;
  SmallOperations& small_;
  std::uint64_t seen_ = 0;
  JobSlot hasty_ = kSeveral;  // whose small operations came lately
  std::uint64_t left_ = 0;
};

}  // namespace tally::protocol
