// A lock-free ring of 64-byte messages, one producer and one consumer: between threads, or between
// processes over shared memory. Each end keeps its own index and capacity in private memory and
// treats what it reads from the shared words as a claim: an index that cannot be is reported as
// `broken`, never followed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tally {

inline constexpr std::size_t kCacheLine = 64;

struct alignas(kCacheLine) RingSlot {
  std::byte bytes[kCacheLine];
};

// The shared words; producer's and consumer's on lines of their own. Zero is the empty ring. The
// indices run freely and are masked at use.
struct RingIndices {
  alignas(kCacheLine) std::atomic<std::uint32_t> tail{0};  // written by the producer
  alignas(kCacheLine) std::atomic<std::uint32_t> head{0};  // written by the consumer
};
static_assert(sizeof(RingIndices) == 2 * kCacheLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class RingProducer {
 public:
  RingProducer() = default;
  // `slots`: a power of two. Both ranges are borrowed for the life of the producer.
  RingProducer(RingIndices& indices, std::span<RingSlot> slots)
      : indices_(&indices),
        slots_(slots.data()),
        capacity_(static_cast<std::uint32_t>(slots.size())) {}

  // False when the ring is full (or broken: a consumer that claims the impossible never drains it).
  bool push(const RingSlot& slot) {
    if (tail_ - head_seen_ >= capacity_) {
      // Acquire pairs with the consumer's release of head: the slot has been read before it is
      // overwritten.
      const std::uint32_t head = indices_->head.load(std::memory_order_acquire);
      if (tail_ - head >= capacity_) return false;
      head_seen_ = head;
    }
    slots_[tail_ & (capacity_ - 1)] = slot;
    // Release pairs with the consumer's acquire of tail: the slot's bytes are there first.
    indices_->tail.store(++tail_, std::memory_order_release);
    return true;
  }

 private:
  RingIndices* indices_ = nullptr;
  RingSlot* slots_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t head_seen_ = 0;
};

class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingIndices& indices, std::span<RingSlot> slots)
      : indices_(&indices),
        slots_(slots.data()),
        capacity_(static_cast<std::uint32_t>(slots.size())) {}

  // Copies up to out.size() messages out, then frees their slots; returns how many.
  std::size_t pop(std::span<RingSlot> out) {
    const std::uint32_t ready = available();
    const std::uint32_t take = ready < out.size() ? ready : static_cast<std::uint32_t>(out.size());
    for (std::uint32_t i = 0; i < take; ++i) out[i] = slots_[(head_ + i) & (capacity_ - 1)];
    if (take > 0) {
      head_ += take;
      // Release pairs with the producer's acquire of head.
      indices_->head.store(head_, std::memory_order_release);
    }
    return take;
  }

  bool empty() { return available() == 0; }

  // The producer claimed more messages than the ring holds: it is not one of ours.
  bool broken() const { return broken_; }

 private:
  std::uint32_t available() {
    // Acquire pairs with the producer's release of tail.
    const std::uint32_t ready = indices_->tail.load(std::memory_order_acquire) - head_;
    if (ready > capacity_) broken_ = true;
    return broken_ ? 0 : ready;
  }

  RingIndices* indices_ = nullptr;
  RingSlot* slots_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  bool broken_ = false;
};

}  // namespace tally
