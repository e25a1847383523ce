// XXH64, by libxxhash. The hash names a result in one word, so that a person can compare two runs,
// two ranks or two machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::perf {

std::uint64_t xxh64(const void* data, std::size_t bytes);

// The hash of several results in order. One result keeps its own hash; of several results it is the
// hash of their hashes.
std::uint64_t combine_hashes(std::span<const std::uint64_t> hashes);

}  // namespace tally::perf
