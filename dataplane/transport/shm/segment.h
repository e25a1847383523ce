// The session segment: memory by which a rank's process and a node's shards exchange messages. The
// client makes it (a sealed memfd), and both sides map it. It holds a ring of notices and a ring of
// completions for each shard. Contributions and results never pass through it.
//
// Neither side trusts what the other side can write: it masks and checks indices
// (base/containers/ring.h), and copies entries out before it parses them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/containers/ring.h"

namespace tally::transport::shm {

inline constexpr std::uint32_t kMaxShards = 256;
inline constexpr std::uint32_t kMaxCredit = 1 << 14;
inline constexpr std::size_t kPage = 4096;

// The sizes on which both sides must agree. The node sends them when a session opens.
struct SegmentGeometry {
  std::uint32_t shards = 1;    // 1 to kMaxShards
  std::uint32_t credit = 256;  // open operations of the session at a shard; 1 to kMaxCredit

  bool valid() const {
    return shards >= 1 && shards <= kMaxShards && credit >= 1 && credit <= kMaxCredit;
  }
  // Entries of each ring: a power of two, and at least twice the credit, because an operation may
  // have a notice and a cancel.
  std::uint32_t entries() const {
    std::uint32_t entries = 2;
    while (entries < 2 * credit) entries *= 2;
    return entries;
  }
  std::size_t shard_bytes() const;  // of one ShardBlock with its rings; a multiple of kPage
  std::size_t bytes() const;        // of the whole segment
};

// The first page of the segment.
struct SegmentHeader {
  // The client's fence: after the client sets it, no shard stores into the session's memory.
  alignas(kCacheLine) std::atomic<std::uint32_t> fence{0};
};

// The words of one shard. The entries of its two rings follow it in the segment. Each word has a
// cache line of its own.
struct ShardBlock {
  RingIndices notices;      // client -> shard
  RingIndices completions;  // shard -> client
  // 1 while the shard sleeps: then the client sends a byte on the doorbell after a notice. The
  // shard sets it; the client clears it when it rings, the shard when it wakes.
  alignas(kCacheLine) std::atomic<std::uint32_t> shard_sleeps{0};
  // 1 while the client sleeps: then the shard sends a byte on the doorbell after a completion.
  alignas(kCacheLine) std::atomic<std::uint32_t> client_sleeps{0};
  // 1 while the shard may be storing into this session's memory. The client reads it after it has
  // set the fence.
  alignas(kCacheLine) std::atomic<std::uint32_t> storing{0};
};
static_assert(sizeof(ShardBlock) == 7 * kCacheLine);

inline std::size_t SegmentGeometry::shard_bytes() const {
  const std::size_t raw = sizeof(ShardBlock) + 2 * std::size_t{entries()} * sizeof(RingEntry);
  return (raw + kPage - 1) / kPage * kPage;
}
inline std::size_t SegmentGeometry::bytes() const {
  return kPage + shards * shard_bytes();
}

// Finds the parts of a mapped segment. Borrows the mapping. All-zero memory is a fresh segment.
// Precondition of all but geometry(): the segment was made with a base.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, const SegmentGeometry& geometry) : base_(base), geometry_(geometry) {}

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  ShardBlock& block(std::uint32_t shard) const {
    return *reinterpret_cast<ShardBlock*>(block_base(shard));
  }
  std::span<RingEntry> notice_entries(std::uint32_t shard) const {
    return {entries_base(shard), geometry_.entries()};
  }
  std::span<RingEntry> completion_entries(std::uint32_t shard) const {
    return {entries_base(shard) + geometry_.entries(), geometry_.entries()};
  }
  const SegmentGeometry& geometry() const { return geometry_; }

 private:
  std::byte* block_base(std::uint32_t shard) const {
    return base_ + kPage + shard * geometry_.shard_bytes();
  }
  RingEntry* entries_base(std::uint32_t shard) const {
    return reinterpret_cast<RingEntry*>(block_base(shard) + sizeof(ShardBlock));
  }

  std::byte* base_ = nullptr;
  SegmentGeometry geometry_;
};

// Doorbells. The side that adds to a ring calls ring_needed() after its store. The side that goes
// to sleep calls fall_asleep() and then looks at the ring a last time. Each has a full fence, so at
// least one of the two sees the other's store (Dekker's algorithm). ring_needed() returns true when
// the caller must send a byte on the doorbell; of several calls for one sleep, only one returns
// true.
inline bool ring_needed(std::atomic<std::uint32_t>& sleeps) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return sleeps.load(std::memory_order_relaxed) != 0 &&
         sleeps.exchange(0, std::memory_order_relaxed) != 0;
}
inline void fall_asleep(std::atomic<std::uint32_t>& sleeps) {
  sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline void wake_up(std::atomic<std::uint32_t>& sleeps) {
  sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace tally::transport::shm
