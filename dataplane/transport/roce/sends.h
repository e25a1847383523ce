// The completions of a connection that are on their way. Each stays where it is until it is
// acknowledged, because it may be sent again.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/containers/ring.h"

namespace tally::transport::roce {

// One thread. With few completions at a time it allocates nothing after the first one. With none it
// keeps memory for kBlock of them.
class Sends {
 public:
  static constexpr std::uint32_t kMost = 64;
  static constexpr std::uint32_t kBlock = 4;  // completions that are allocated together

  // Returns the number of the copy; nothing when there are kMost.
  std::optional<std::uint32_t> add(const RingEntry& message) {
    if (~used_ == 0) return std::nullopt;
    const auto number = static_cast<std::uint32_t>(std::countr_one(used_));
    std::unique_ptr<Block>& block = blocks_[number / kBlock];
    if (block == nullptr) block = std::make_unique<Block>();
    (*block)[number % kBlock] = message;
    used_ |= std::uint64_t{1} << number;
    return number;
  }
  // Precondition, as of drop(): it was added and not dropped.
  const RingEntry& operator[](std::uint32_t number) const {
    return (*blocks_[number / kBlock])[number % kBlock];
  }
  void drop(std::uint32_t number) {
    used_ &= ~(std::uint64_t{1} << number);
    const std::uint32_t block = number / kBlock;
    if (block > 0 && (used_ >> block * kBlock & ((1U << kBlock) - 1)) == 0) blocks_[block].reset();
  }

 private:
  using Block = std::array<RingEntry, kBlock>;

  std::array<std::unique_ptr<Block>, kMost / kBlock> blocks_;
  std::uint64_t used_ = 0;  // bit i: number i
};

}  // namespace tally::transport::roce
