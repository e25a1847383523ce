// What the kernel lets this process have besides memory (memory_limit.h), so that a node can refuse
// a session or a region early, with numbers, before the kernel refuses something to all.
#pragma once

#include <cstdint>

namespace tally::control {

// Mappings that sessions may take: half of vm.max_map_count, the rest is the node's own.
std::uint32_t mapping_limit();

// Raises the soft limit of open files to the hard one; what it is now.
std::uint64_t raise_descriptor_limit();

}  // namespace tally::control
