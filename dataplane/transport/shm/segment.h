// The session segment: the memory through which a rank's process and a node's shards talk. The
// client makes it (a sealed memfd) and both map it; it holds, for every shard, a ring of notices
// and a ring of completions. Payload never passes here.
//
// Both sides treat what the other can write as a claim: indices are masked and checked
// (base/ring.h), entries are copied out before they are parsed.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/ring.h"

namespace tally::transport::shm {

inline constexpr std::uint32_t kMaxShards = 256;
inline constexpr std::uint32_t kMaxCredit = 1 << 14;
inline constexpr std::size_t kPage = 4096;

// What both sides have to agree about; the node tells it when a session opens.
struct SegmentGeometry {
  std::uint32_t shards = 1;
  std::uint32_t credit = 256;

  bool valid() const {
    return shards >= 1 && shards <= kMaxShards && credit >= 1 && credit <= kMaxCredit;
  }
  // Twice the credit: a notice and its cancel; powers of two.
  std::uint32_t slots() const {
    std::uint32_t slots = 2;
    while (slots < 2 * credit) slots *= 2;
    return slots;
  }
  std::size_t shard_bytes() const;
  std::size_t bytes() const;
};

// One for the session.
struct SegmentHeader {
  // The client's fence: once it is not 0, no shard stores into the session's memory any more.
  alignas(kCacheLine) std::atomic<std::uint32_t> fence{0};
};

// One for each shard, followed by the slots of its two rings. Each word has one writer and a line
// of its own.
struct ShardBlock {
  RingIndices notices;      // client -> shard
  RingIndices completions;  // shard -> client
  // The shard sleeps: a notice must be followed by a byte on the doorbell.
  alignas(kCacheLine) std::atomic<std::uint32_t> shard_sleeps{0};
  // The client sleeps: a completion must be followed by a byte on the doorbell.
  alignas(kCacheLine) std::atomic<std::uint32_t> client_sleeps{0};
  // The shard may be storing into this session's memory right now (the fence's other half).
  alignas(kCacheLine) std::atomic<std::uint32_t> storing{0};
};
static_assert(sizeof(ShardBlock) == 7 * kCacheLine);

inline std::size_t SegmentGeometry::shard_bytes() const {
  const std::size_t raw = sizeof(ShardBlock) + 2 * std::size_t{slots()} * sizeof(RingSlot);
  return (raw + kPage - 1) / kPage * kPage;
}
inline std::size_t SegmentGeometry::bytes() const {
  return kPage + shards * shard_bytes();
}

// The parts of a mapped segment. Borrows the mapping; all-zero memory is a fresh segment.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, const SegmentGeometry& geometry) : base_(base), geometry_(geometry) {}

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  ShardBlock& block(std::uint32_t shard) const {
    return *reinterpret_cast<ShardBlock*>(block_base(shard));
  }
  std::span<RingSlot> notice_slots(std::uint32_t shard) const {
    return {slots_base(shard), geometry_.slots()};
  }
  std::span<RingSlot> completion_slots(std::uint32_t shard) const {
    return {slots_base(shard) + geometry_.slots(), geometry_.slots()};
  }
  const SegmentGeometry& geometry() const { return geometry_; }

 private:
  std::byte* block_base(std::uint32_t shard) const {
    return base_ + kPage + shard * geometry_.shard_bytes();
  }
  RingSlot* slots_base(std::uint32_t shard) const {
    return reinterpret_cast<RingSlot*>(block_base(shard) + sizeof(ShardBlock));
  }

  std::byte* base_ = nullptr;
  SegmentGeometry geometry_;
};

// Doorbells. The side that adds to a ring calls ring_needed() after its store, the side that goes
// to sleep calls fall_asleep() before it looks at the ring a last time: with a full fence on either
// side at least one of them sees the other (Dekker).
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
