// Makes a region from a caller's description of its memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/connections/connection.h"
#include "client/memory/region.h"
#include "tally/tally.h"

namespace tally::client {

// What the session does while a region is made.
struct RegionMaking {
  // Logs a line when the memory will be copied.
  std::function<void(const std::string&)> log;
  // Asks whether the nodes accept so many bytes, before the library populates memory of its own.
  std::function<Outcome(std::uint64_t)> room_for;
};

// Implements tally_region_alloc. `bytes` is 1 to wire::kMaxBytes.
Result<std::unique_ptr<Region>> allocate_region(std::size_t bytes, const RegionMaking& making);
// Implements tally_region_register. Null for memory of a CUDA device that an operation is to reach
// without an ibv_mr: client/device makes its regions.
Result<std::unique_ptr<Region>> make_region(const MemoryNeeds& needs, const tally_memory& memory,
                                            const RegionMaking& making);

}  // namespace tally::client
