#include "control/cli/doctor/checks/checks.h"

#include <array>
#include <exception>

#include "control/config/rails.h"
#include "net/address.h"

namespace tally::control::doctor {
namespace {

constexpr std::array<Check, 18> kChecks = {{
    {"devices", "RDMA devices, their drivers, and whether this user may use them", check_devices},
    {"libraries", "libfabric and libibverbs can be opened, with their versions", check_libraries},
    {"ports", "state, link layer and rate of each RDMA port", check_ports},
    {"gids", "each port has a RoCE v2 address that others can reach, and which", check_gids},
    {"mtu", "packets of RDMA ports fit their interfaces; jumbo frames", check_mtu},
    {"path", "how large a packet gets to a host (only with --path HOST)", check_path},
    {"memlock", "how much memory may be registered (RLIMIT_MEMLOCK)", check_memlock},
    {"hugepages", "hugepages of 2 MiB by NUMA node; those of shared memory", check_hugepages},
    {"rails", "the NICs of network.rails (only with --config FILE)", check_rails},
    {"roce", "the port of network.roce (only with --config FILE)", check_roce},
    {"numa", "distance between network cards and the CPUs of shards", check_numa},
    {"counters", "errors, retries and congestion that RDMA ports have counted", check_counters},
    {"pfc", "pause frames and discards of RoCE interfaces", check_pfc},
    {"gpu", "GPU memory can be registered with RDMA devices", check_gpu},
    {"cpu", "frequency governor, isolated CPUs, IOMMU", check_cpu},
    {"memory", "memory of this process's cgroup", check_memory},
    {"tcp", "limits of TCP's buffers", check_tcp},
    {"node", "a node that runs here, or at --address, answers", check_node},
}};

}  // namespace

std::span<const Check> all_checks() {
  return kChecks;
}

const Check* find_check(std::string_view name) {
  for (const Check& check : kChecks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

Examined examine(const Check& check, const Machine& machine) {
  try {
    return {check.name, check.run(machine)};
  } catch (const std::exception& error) {
    return {check.name, {unknown("this check", {Status::kInternal, error.what()})}};
  }
}

// The daemon places its shards in the same way.
ShardPlacing shard_placing(const Machine& machine) {
  if (!machine.config) return {};
  const auto rails = configured_rails(*machine.config);
  const auto hardware = machine.system.hardware();
  if (!rails || !hardware) return {};
  const auto nics = nics_of_shards(*machine.config, *rails, machine.system.interfaces());
  return {*hardware, place_shards(*hardware, nics)};
}

// Shards run near their NICs, where the machine describes that. Else they run as
// dataplane/engine/eal.cc places them. Two shards or more stay on the first CPUs if there is one
// for each; all others float.
Result<std::vector<int>> shard_cpus(const Machine& machine) {
  auto cpus = machine.system.cpus();
  if (!cpus || !machine.config) return cpus;
  if (const auto placing = shard_placing(machine); !placing.places.empty()) {
    std::vector<int> chosen;
    for (const CpuAssignment& place : placing.places) chosen.push_back(place.cpu);
    return chosen;
  }
  const std::size_t shards = machine.config->shards;
  if (shards > 1 && shards <= cpus->size()) cpus->resize(shards);
  return cpus;
}

VerbsWish verbs_wish(const Machine& machine) {
  VerbsWish wish;
  if (!machine.config) return wish;
  const auto devices = between_commas(machine.config->device);
  if (!devices.empty()) wish.device = devices.front();
  if (machine.config->listen_tcp.empty()) return wish;
  const auto addresses = net::resolve_tcp(machine.config->listen_tcp, /*to_listen=*/true);
  if (addresses) wish.host = net::host_of(addresses->front().socket);
  return wish;
}

}  // namespace tally::control::doctor
