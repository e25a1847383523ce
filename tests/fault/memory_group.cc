#include "tests/fault/memory_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace tally::testing {
namespace {

struct Version {
  const char* root;
  const char* limit;
};
constexpr Version kVersions[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                 {"/sys/fs/cgroup", "memory.max"}};

}  // namespace

MemoryGroup::MemoryGroup(std::uint64_t bytes) {
  for (const Version& version : kVersions) {
    const std::string directory =
        std::string(version.root) + "/tally-test-" + std::to_string(::getpid());
    if (::mkdir(directory.c_str(), 0755) != 0) continue;
    // Without the controller the file is not there, and a cgroup takes no new ones.
    const std::string limit = directory + "/" + version.limit;
    if (::access(limit.c_str(), W_OK) == 0 && (std::ofstream(limit) << bytes << std::flush)) {
      directory_ = directory;
      return;
    }
    ::rmdir(directory.c_str());
  }
}

MemoryGroup::~MemoryGroup() {
  if (!made()) return;
  std::ifstream processes(members());
  for (pid_t process = 0; processes >> process;) ::kill(process, SIGKILL);
  for (int i = 0; i < 1000 && ::rmdir(directory_.c_str()) != 0; ++i) ::poll(nullptr, 0, 5);
}

}  // namespace tally::testing
