// Where BytePS's mixed mode places parameters: the hashes of Hash_Mixed_Mode in
// byteps/common/global.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tally::simulator {

inline constexpr std::uint64_t kBytePsPart = 4096000;  // bytes: BYTEPS_PARTITION_BYTES

// The bytes of each server: first of the `helpers`, then of the `workers` (at least one). Each
// tensor is cut into parts. A part's key is made of the tensor's index and the part's. The first
// hash says whether the part goes to a helper: helpers get the share of the closed form (BytePS,
// section 4.1). The hash of this hash says to which server. tensors: bytes of each.
std::vector<std::uint64_t> hashed_bytes(std::span<const std::uint64_t> tensors, std::size_t workers,
                                        std::size_t helpers);

}  // namespace tally::simulator
