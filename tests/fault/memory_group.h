// A cgroup of memory for a test's processes, gone with the object (and what still runs in it
// killed).
#pragma once

#include <cstdint>
#include <string>

namespace tally::testing {

class MemoryGroup {
 public:
  // Version 1 or 2 of cgroups, whatever is mounted; none (see `made`) where this user may not.
  explicit MemoryGroup(std::uint64_t bytes);
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return !directory_.empty(); }
  // A process that writes its number here is in the group from then on.
  std::string members() const { return directory_ + "/cgroup.procs"; }

 private:
  std::string directory_;
};

}  // namespace tally::testing
