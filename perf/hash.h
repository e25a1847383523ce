// XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): names a result in one
// word, so that two runs, two ranks or two machines can be compared by eye.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::perf {

std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed = 0);

// The hash of several results in order: of one, its own; of many, the hash of their hashes.
std::uint64_t combine_hashes(std::span<const std::uint64_t> hashes);

}  // namespace tally::perf
