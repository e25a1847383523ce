// The configuration of a shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "base/crc32c.h"
#include "dataplane/protocol/job/config.h"
#include "summation/reduce.h"

namespace tally::engine {

struct ShardConfig {
  protocol::AggregatorConfig protocol;
  const summation::Kernels* kernels = nullptr;
  const Crc32c* crc32c = nullptr;  // null: the shard refuses operations with checksums
  std::uint32_t max_ranks = wire::kMaxRanks;
  // The memory for tiles and their buffers: hugepages of the EAL in tallyd, the heap in tests.
  // Borrowed and used from the shard's thread. It grows to the need of the widest job, and the
  // shard reuses it.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// Returns how many pulls a shard may have in progress, which is also how many views it may hold. A
// tile has one pull of data and one pull of checksums for each input of its group.
inline std::size_t max_pulls(const ShardConfig& config) {
  return 2 * protocol::most_inputs(config.protocol, config.max_ranks);
}

}  // namespace tally::engine
