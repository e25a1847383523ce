#include "control/machine/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>

namespace tally::control {
namespace {

constexpr std::uint64_t kUsualMaps = 65'530;

}  // namespace

std::uint32_t mapping_limit() {
  std::uint64_t maps = 0;
  if (std::ifstream file("/proc/sys/vm/max_map_count"); !(file >> maps)) maps = kUsualMaps;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(maps / 2, UINT32_MAX));
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

}  // namespace tally::control
