// What a shard does with its transport in a reduce and in a broadcast, but without the protocol: it
// reads workers' bytes and adds them to a sum, or writes a result to them. For any transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/transport.h"
#include "summation/reduce.h"

namespace tally::perf {

// Bytes of a pull and of a push, as of a shard's tile.
inline constexpr std::size_t kOperationBytes = 64 << 10;
// Bytes of a region of a worker.
inline constexpr std::size_t kRegionBytes = 4 * kOperationBytes;
inline constexpr std::uint32_t kSourceRegion = 1;
inline constexpr std::uint32_t kTargetRegion = 2;

// Every operation has these elements, so a sum shows how often each of them was added.
inline float element(std::size_t index) {
  return static_cast<float>(index % 251);
}
void fill(std::span<std::byte> memory, float times = 1);
bool is_filled(std::span<const std::byte> memory, float times = 1);

// A sum of operations' bytes.
class Sum {
 public:
  static constexpr std::size_t kElements = kOperationBytes / sizeof(float);

  Sum() : elements_(kElements) {}
  void clear() { elements_.assign(kElements, 0); }
  // The bytes begin at this offset of an operation.
  void add(View bytes, std::size_t count, std::size_t offset);
  // Whether the elements from `first` on were added so often. Exact up to 60,000 times.
  bool is(std::uint64_t times, std::size_t first, std::size_t count) const;

 private:
  const summation::Kernels& kernels_ = *summation::kernels(summation::best_isa());
  std::vector<float> elements_;
};

// One thread. The peers 0 to peers - 1 are attached and have both regions.
class NodeLoop {
 public:
  enum class Work { kReads, kWrites };

  // result: kOperationBytes that the transport may send. Borrowed, as the transport.
  NodeLoop(transport::Transport& transport, std::span<const std::byte> result)
      : transport_(transport), result_(result) {}

  // From now on each of so many peers has `depth` operations in flight.
  void begin(Work work, std::uint32_t peers, std::uint32_t depth);
  // Starts no more operations.
  void end() { ends_ = true; }
  bool is_idle() const { return in_flight_ == 0; }
  // Returns the number of operations that have ended.
  std::size_t poll();
  std::uint64_t done() const { return done_; }
  // Whether no operation has failed, and the sum has each READ once.
  bool is_right() const {
    return failed_ == 0 && (work_ == Work::kWrites || sum_.is(done_, 0, Sum::kElements));
  }
  std::uint64_t failed() const { return failed_; }

 private:
  void start(transport::Peer peer);

  transport::Transport& transport_;
  std::span<const std::byte> result_;
  Work work_ = Work::kReads;
  bool ends_ = true;
  std::uint32_t in_flight_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t offset_ = 0;
  Nanos next_chores_ = 0;
  Sum sum_;
};

}  // namespace tally::perf
