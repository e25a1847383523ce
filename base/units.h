// Sizes in bytes.
#pragma once

#include <cstdint>

namespace tally {

inline constexpr std::uint64_t kKib = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

}  // namespace tally
