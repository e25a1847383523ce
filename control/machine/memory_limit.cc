#include "control/machine/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tally::control {
namespace {

// The least number in `file` of the group and of its parents, up to `root`. No limit is "max"
// (version 2), a number near 2^63 (version 1) or no file (the machine's own group).
std::uint64_t tightest(const std::string& root, std::filesystem::path group, const char* file) {
  std::uint64_t limit = UINT64_MAX;
  for (bool more = true; more; group = group.parent_path()) {
    more = group.has_relative_path();
    std::ifstream text(root + (more ? group.string() : "") + "/" + file);
    if (std::uint64_t bytes = 0; text >> bytes) limit = std::min(limit, bytes);
  }
  return limit;
}

}  // namespace

std::uint64_t memory_limit() {
  const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_memory_limit("/sys/fs/cgroup", "/proc/self/cgroup"));
}

std::uint64_t memory_for_peers(std::uint64_t limit) {
  constexpr std::uint64_t kOwn = 256 << 20;
  constexpr std::uint64_t kPage = 4096;  // configured limits are whole pages
  return (limit - std::min(limit / 2, kOwn)) / kPage * kPage;
}

// Lines are "ID:CONTROLLERS:/path"; the line of version 2 is "0::/path".
std::uint64_t cgroup_memory_limit(const std::string& root, const std::string& proc_self_cgroup) {
  std::ifstream cgroups(proc_self_cgroup);
  std::uint64_t limit = UINT64_MAX;
  for (std::string line; std::getline(cgroups, line);) {
    const auto controllers = line.find(':');
    const auto path = line.find(":/");
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string name = line.substr(controllers, path - controllers);
    const std::string group = line.substr(path + 1);
    if (line.starts_with("0::/")) {
      limit = std::min(limit, tightest(root, group, "memory.max"));
    } else if (name == ":memory") {
      limit = std::min(limit, tightest(root + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace tally::control
