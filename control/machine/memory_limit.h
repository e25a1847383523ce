// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace tally::control {

// Bytes: the memory of the machine, or the tightest cgroup limit (version 1 or 2) above this
// process when that is less.
std::uint64_t memory_limit();

// How many bytes of `limit` peers may register. A peer pays for its memory until it punches holes
// into it; then the node pays when it touches the holes. So the node needs that much memory beside
// its own need (less than 256 MiB), or the kernel kills it. Returns limit minus 256 MiB, and at
// least half of limit, in whole pages.
std::uint64_t memory_for_peers(std::uint64_t limit);

// The limit of the cgroup that proc_self_cgroup (a file like /proc/self/cgroup) names, below
// `root`, in bytes; UINT64_MAX without a limit. The group at `root` counts too: in a container it
// is the container's.
std::uint64_t cgroup_memory_limit(const std::string& root, const std::string& proc_self_cgroup);

}  // namespace tally::control
