// A memory cgroup for a test's processes. The destructor kills the processes that are still in it,
// and removes it.
#pragma once

#include <cstdint>
#include <string>

namespace tally::testing {

class MemoryGroup {
 public:
  // Makes a cgroup of version 1 or 2, whichever is mounted, with a limit of `bytes`. made() is
  // false when this user may not make one.
  explicit MemoryGroup(std::uint64_t bytes);
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return !directory_.empty(); }
  // The file of the group's processes. A process that writes its number there joins the group.
  std::string members() const { return directory_ + "/cgroup.procs"; }

 private:
  std::string directory_;
};

}  // namespace tally::testing
