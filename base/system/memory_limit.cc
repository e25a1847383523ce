#include "base/system/memory_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

namespace tally {

std::string memory_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY
             ? "locked memory is not limited"
             : fmt::format(
                   "this process may lock {} KiB (ulimit -l; raise it with LimitMEMLOCK= "
                   "in systemd, --ulimit memlock=-1 in docker)",
                   limit.rlim_cur >> 10);
}

}  // namespace tally
