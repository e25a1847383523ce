// The memory that the peers of a target may read and write: one region with a random key. The
// queue pairs share it, each has a part of its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random_number.h"
#include "dataplane/transport/roce/pair/responder.h"

namespace tally::transport::roce::target {

class MemoryWindow : public ReachableMemory {
 public:
  // memory is borrowed.
  explicit MemoryWindow(std::span<std::byte> memory) : memory_(memory) {}

  std::uint32_t key() const { return key_; }
  static std::uint64_t address_of(std::span<const std::byte> part) {
    return std::bit_cast<std::uintptr_t>(part.data());
  }
  // The part of pair `index` of `pairs`.
  std::span<std::byte> part(std::size_t index, std::size_t pairs) const {
    const std::size_t bytes = memory_.size() / pairs / kPage * kPage;
    return memory_.subspan(index * bytes, bytes);
  }

  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  Right) const override {
    const std::uint64_t at = address - address_of(memory_);
    const bool is_inside = at <= memory_.size() && bytes <= memory_.size() - at;
    return key == key_ && is_inside ? memory_.data() + at : nullptr;
  }

 private:
  static constexpr std::size_t kPage = 4096;

  std::span<std::byte> memory_;
  std::uint32_t key_ = static_cast<std::uint32_t>(random_number());
};

}  // namespace tally::transport::roce::target
