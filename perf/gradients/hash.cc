#include "perf/gradients/hash.h"

#include <xxhash.h>

namespace tally::perf {

std::uint64_t xxh64(const void* data, std::size_t bytes) {
  return XXH64(data, bytes, 0);
}

std::uint64_t combine_hashes(std::span<const std::uint64_t> hashes) {
  return hashes.size() == 1 ? hashes.front() : xxh64(hashes.data(), hashes.size_bytes());
}

}  // namespace tally::perf
