// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace tally::control {

// Bytes: of the machine, or of the tightest cgroup (version 2) above this process where that is
// less. A peer that punches holes into its memory makes the node pay for the pages: a job that may
// register no more than this cannot have the kernel kill the node.
std::uint64_t memory_limit();

// The same with the cgroup as /proc/self/cgroup has it, below `root`.
std::uint64_t cgroup_memory_limit(const std::string& root, const std::string& proc_self_cgroup);

}  // namespace tally::control
