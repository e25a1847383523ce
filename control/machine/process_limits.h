// The kernel's limits for this process besides memory (memory_limit.h). With them a node refuses a
// session or a region early, with numbers, before the kernel refuses a resource to every job.
#pragma once

#include <cstdint>

namespace tally::control {

// Mappings that sessions may use: half of vm.max_map_count. The rest is for the node itself.
std::uint32_t mapping_limit();

// Raises the soft limit of open files to the hard one, and returns the limit then in force.
std::uint64_t raise_descriptor_limit();

}  // namespace tally::control
