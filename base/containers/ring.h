// A lock-free ring of 64-byte messages with one producer and one consumer. The two are threads of
// one process, or two processes over shared memory. Each end keeps its own index and its capacity
// in private memory. It validates each index that it reads from shared memory. An impossible index
// makes the ring `broken`, and the end never follows it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tally {

inline constexpr std::size_t kCacheLine = 64;

struct alignas(kCacheLine) RingEntry {
  std::byte bytes[kCacheLine];
};

// The shared indices. Each is on a cache line of its own. All zeros is an empty ring. The indices
// increase without wrapping at the capacity, and each use masks them.
struct RingIndices {
  alignas(kCacheLine) std::atomic<std::uint32_t> tail{0};  // written by the producer
  alignas(kCacheLine) std::atomic<std::uint32_t> head{0};  // written by the consumer
};
static_assert(sizeof(RingIndices) == 2 * kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class RingProducer {
 public:
  RingProducer() = default;
  // The number of entries must be a power of two. The producer borrows both ranges for its whole
  // life.
  RingProducer(RingIndices& indices, std::span<RingEntry> entries)
      : indices_(&indices),
        entries_(entries.data()),
        capacity_(static_cast<std::uint32_t>(entries.size())) {}

  // Returns false when the ring is full. A broken ring stays full, because a consumer with an
  // impossible index never drains it.
  bool push(const RingEntry& entry) {
    if (tail_ - head_seen_ >= capacity_) {
      // Acquire pairs with the consumer's release of head: the consumer has read the entry before
      // the producer overwrites it.
      const std::uint32_t head = indices_->head.load(std::memory_order_acquire);
      if (tail_ - head >= capacity_) return false;
      head_seen_ = head;
    }
    entries_[tail_ & (capacity_ - 1)] = entry;
    // Release pairs with the consumer's acquire of tail: the entry's bytes become visible first.
    indices_->tail.store(++tail_, std::memory_order_release);
    return true;
  }

 private:
  RingIndices* indices_ = nullptr;
  RingEntry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_seen_ = 0;
};

class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingIndices& indices, std::span<RingEntry> entries)
      : indices_(&indices),
        entries_(entries.data()),
        capacity_(static_cast<std::uint32_t>(entries.size())) {}

  // Copies up to out.size() messages to `out`, then frees their entries. Returns the number of
  // messages.
  std::size_t pop(std::span<RingEntry> out) {
    const std::uint32_t ready = available();
    const std::uint32_t take = ready < out.size() ? ready : static_cast<std::uint32_t>(out.size());
    for (std::uint32_t i = 0; i < take; ++i) out[i] = entries_[(head_ + i) & (capacity_ - 1)];
    if (take > 0) {
      head_ += take;
      // Release pairs with the producer's acquire of head.
      indices_->head.store(head_, std::memory_order_release);
    }
    return take;
  }

  bool empty() { return available() == 0; }

  // Returns true when the producer claimed more messages than the ring holds. Such a producer does
  // not follow the protocol.
  bool broken() const { return broken_; }

 private:
  std::uint32_t available() {
    // Acquire pairs with the producer's release of tail.
    const std::uint32_t ready = indices_->tail.load(std::memory_order_acquire) - head_;
    if (ready > capacity_) broken_ = true;
    return broken_ ? 0 : ready;
  }

  RingIndices* indices_ = nullptr;
  RingEntry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  bool broken_ = false;
};

}  // namespace tally
