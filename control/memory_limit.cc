#include "control/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tally::control {

std::uint64_t memory_limit() {
  const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_limit("/sys/fs/cgroup", "/proc/self/cgroup"));
}

// The line of version 2 is "0::/path". A memory.max is a number or "max"; the root has none.
std::uint64_t cgroup_memory_limit(const std::string& root, const std::string& proc_self_cgroup) {
  std::ifstream cgroups(proc_self_cgroup);
  std::uint64_t limit = UINT64_MAX;
  for (std::string line; std::getline(cgroups, line);) {
    if (!line.starts_with("0::/")) continue;
    std::filesystem::path group = line.substr(3);
    for (; group.has_relative_path(); group = group.parent_path()) {
      std::ifstream file(root + group.string() + "/memory.max");
      if (std::uint64_t bytes = 0; file >> bytes) limit = std::min(limit, bytes);
    }
  }
  return limit;
}

}  // namespace tally::control
