// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace tally::control {

// Bytes: of the machine, or of the tightest cgroup (version 1 or 2) above this process where that
// is less.
std::uint64_t memory_limit();

// What of it may be registered. Peers pay for their memory, until they punch holes into it: then
// the node does, when it touches them. It has to have that much beside what it needs itself (less
// than 256 MiB), or the kernel kills it.
std::uint64_t memory_for_peers(std::uint64_t limit);

// The same with the cgroup as /proc/self/cgroup has it, below `root`; UINT64_MAX without a limit.
// The group at `root` itself counts too: in a container it is the container's.
std::uint64_t cgroup_memory_limit(const std::string& root, const std::string& proc_self_cgroup);

}  // namespace tally::control
