#include "base/system/free_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>

namespace tally {
namespace {

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the sum of these keys in a file whose lines are "KEY NUMBER ...".
std::optional<std::uint64_t> read_keys(const std::string& path,
                                       std::span<const std::string_view> keys) {
  std::ifstream file(path);
  std::optional<std::uint64_t> sum;
  std::string key, rest;
  for (std::uint64_t number = 0; file >> key >> number; std::getline(file, rest)) {
    const bool wanted = std::find(keys.begin(), keys.end(), key) != keys.end();
    if (wanted) sum = sum.value_or(0) + number;
  }
  return sum;
}

constexpr std::array<std::string_view, 1> kAvailable = {"MemAvailable:"};

// The files of one of the two versions of cgroups.
struct Files {
  const char* limit;
  const char* used;
  std::array<std::string_view, 3> caches;  // in memory.stat
};
constexpr Files kVersion1 = {"memory.limit_in_bytes",
                             "memory.usage_in_bytes",
                             {"total_inactive_file", "total_active_file", ""}};
constexpr Files kVersion2 = {
    "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

void consider(const std::string& folder, const std::string& name, const Files& files,
              FreeMemory& least) {
  const auto limit = read_number(folder + "/" + files.limit);  // "max" is no number
  const auto used = read_number(folder + "/" + files.used);
  if (!limit || !used) return;
  const std::uint64_t caches = read_keys(folder + "/memory.stat", files.caches).value_or(0);
  const std::uint64_t held = *used - std::min(*used, caches);
  const std::uint64_t free = *limit - std::min(*limit, held);
  if (free >= least.bytes) return;
  least = {free, fmt::format("cgroup {} ({} {})", name, files.limit, *limit)};
}

// Considers the group and those above it, up to the root. In a container the root is the
// container's group.
void consider_all(const std::string& root, std::filesystem::path group, const Files& files,
                  FreeMemory& least) {
  for (bool more = true; more; group = group.parent_path()) {
    more = group.has_relative_path();
    consider(root + (more ? group.string() : ""), group.string(), files, least);
  }
}

}  // namespace

FreeMemory free_memory(const std::string& proc, const std::string& cgroups) {
  FreeMemory least;
  if (const auto kilobytes = read_keys(proc + "/meminfo", kAvailable)) {
    least = {*kilobytes << 10, "this machine (MemAvailable)"};
  }
  // Lines are "ID:CONTROLLERS:/path"; the line of version 2 is "0::/path".
  std::ifstream groups(proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto path = line.find(":/");
    if (path == std::string::npos) continue;
    const std::string group = line.substr(path + 1);
    if (line.starts_with("0::/")) consider_all(cgroups, group, kVersion2, least);
    const bool memory = line.substr(0, path).ends_with(":memory");
    if (memory) consider_all(cgroups + "/memory", group, kVersion1, least);
  }
  return least;
}

}  // namespace tally
