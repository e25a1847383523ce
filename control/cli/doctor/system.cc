#include "control/cli/doctor/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "control/cli/doctor/ethtool.h"
#include "control/cli/doctor/verbs_library.h"
#include "control/machine/topology.h"
#include "dataplane/transport/fabric/library.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control::doctor {

using nlohmann::json;

Result<std::uint64_t> ThisSystem::memory_lock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return Error{Status::kInternal, fmt::format("getrlimit: {}", std::strerror(errno))};
  }
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : std::uint64_t{limit.rlim_cur};
}

Outcome ThisSystem::may_use(const std::string& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0) return Unit{};
  const Status status = errno == ENOENT ? Status::kUnavailable : Status::kRefused;
  return Error{status, fmt::format("{}: {}", path, std::strerror(errno))};
}

Result<std::vector<int>> ThisSystem::cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return Error{Status::kInternal, fmt::format("sched_getaffinity: {}", std::strerror(errno))};
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<Hardware> ThisSystem::hardware() {
  const auto topology = Topology::of_this_machine();
  return topology != nullptr ? std::optional(topology->hardware()) : std::nullopt;
}

std::vector<Interface> ThisSystem::interfaces() {
  return control::interfaces();
}

Result<std::string> ThisSystem::libfabric_version() {
  const auto library = transport::fabric::library();
  if (!library) return library.error();
  const std::uint32_t version = (*library)->version();
  return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version));
}

Result<VerbsLibrary> ThisSystem::verbs_library(const VerbsWish& wish) {
  return open_verbs_library(wish);
}

Result<Statistics> ThisSystem::ethtool_statistics(const std::string& interface) {
  return read_ethtool_statistics(interface);
}

Result<std::vector<PathMtu>> ThisSystem::path_mtus(const std::string& host) {
  return measure_paths(host);
}

Result<json> ThisSystem::node_status(const std::string& address, double timeout) {
  auto channel = rpc::RpcChannel::connect_as_user(address);
  if (!channel) return channel.error();
  const auto limit = static_cast<Nanos>(timeout * kSecond);
  return channel->call("node.status", json::object(), {}, monotonic_now() + limit);
}

}  // namespace tally::control::doctor
