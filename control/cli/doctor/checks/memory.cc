// Memory: how much a process may register, what is on hugepages, and what the cgroup allows.
#include <fmt/format.h>

#include <charconv>

#include "base/text/sizes.h"
#include "base/units.h"
#include "control/cli/common/tables.h"
#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"
#include "control/config/config_keys.h"
#include "control/machine/memory_limit.h"

namespace tally::control::doctor {
namespace {

constexpr unsigned kIpcLockCapability = 14;  // CAP_IPC_LOCK
// Enough for a few buckets of gradients. Whole models need more.
constexpr std::uint64_t kLeastLocked = 1 * kGib;
// A node needs less than 256 MiB for itself. Its peers' memory may count against it as well.
constexpr std::uint64_t kLittleMemory = 1 * kGib;

std::string size_shown(std::uint64_t bytes) {
  return format_value(bytes, Format::kBytes);
}

// True when this process may lock more memory than its limit allows.
bool may_exceed_lock_limit(const Files& files) {
  const auto status = files.read("/proc/self/status");
  if (!status) return false;
  constexpr std::string_view kLine = "CapEff:\t";
  const auto at = status->find(kLine);
  if (at == std::string::npos) return false;
  const char* begin = status->data() + at + kLine.size();
  std::uint64_t capabilities = 0;
  std::from_chars(begin, status->data() + status->size(), capabilities, 16);
  return (capabilities >> kIpcLockCapability & 1) != 0;
}

constexpr std::string_view kHuge = "hugepages/hugepages-2048kB";

// Free pages and all pages of the pool in this folder.
Result<std::pair<std::uint64_t, std::uint64_t>> pool(const Files& files, std::string_view folder) {
  const auto all = files.number(fmt::format("{}/{}/nr_hugepages", folder, kHuge));
  if (!all) return all.error();
  const auto free = files.number(fmt::format("{}/{}/free_hugepages", folder, kHuge));
  if (!free) return free.error();
  return std::pair{*free, *all};
}

// Hugepages on each NUMA node. The shards take their pages from the node that they run on.
std::string by_node(const Files& files) {
  std::string text;
  for (const std::string& name : files.list("/sys/devices/system/node")) {
    if (!name.starts_with("node")) continue;
    const auto found = pool(files, "/sys/devices/system/node/" + name);
    if (!found) continue;
    text +=
        fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", name, found->first, found->second);
  }
  return text.empty() ? text : " (" + text + ")";
}

Finding pages_of_the_engine(const Machine& machine) {
  const std::string what = "hugepages of 2 MiB";
  const auto found = pool(machine.files, "/sys/kernel/mm");
  if (!found) return unknown(what, found.error());
  const auto [free, all] = *found;
  const bool asked = machine.config && machine.config->hugepages != engine::Hugepages::kOff;
  const std::uint64_t wanted =
      machine.config ? (machine.config->engine_mib + std::uint64_t{1}) / 2 : 1;
  std::string value = fmt::format("{} of {} free{}", free, all, by_node(machine.files));
  if (machine.config) value += fmt::format(", the engine wants {}", asked ? wanted : 0);
  if (free >= wanted || (machine.config && !asked)) return ok(what, value);
  const std::string remedy =
      fmt::format("sysctl -w vm.nr_hugepages={} (and a line in /etc/sysctl.d/ for good)",
                  all - free + (machine.config ? wanted : std::uint64_t{128}));
  if (asked && machine.config->hugepages == engine::Hugepages::kOn) {
    return problem(what, value + ", and memory.hugepages = \"on\"", remedy);
  }
  return note(what, value + ": the engine takes ordinary pages then", remedy);
}

// UINT64_MAX when the size is unknown.
std::uint64_t memory_of_the_machine(const Files& files) {
  const auto text = files.read("/proc/meminfo");
  const auto words = text ? words_of(*text) : std::vector<std::string>();
  if (words.size() < 2 || words[0] != "MemTotal:") return UINT64_MAX;
  const auto kib = leading_number(words[1]);
  return kib ? *kib << 10 : UINT64_MAX;
}

// The file has the chosen value in brackets: "always within_size advise [never] deny force".
Finding pages_of_shared_memory(const Files& files) {
  constexpr std::string_view kFile = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  const std::string what = "hugepages of shared memory (shmem_enabled)";
  const auto text = files.read(kFile);
  if (!text) return unknown(what, text.error());
  const auto first = text->find('[');
  const auto last = text->find(']', first == std::string::npos ? 0 : first);
  if (first == std::string::npos || last == std::string::npos) {
    return unknown(what, {Status::kInternal, fmt::format("{} says \"{}\"", kFile, *text)});
  }
  const std::string chosen = text->substr(first + 1, last - first - 1);
  if (chosen == "never" || chosen == "advise") return ok(what, chosen);
  return note(what,
              chosen +
                  ": every file in shared memory gets them, whether it asked or not; regions "
                  "ask where they want them",
              fmt::format("echo advise >{}", kFile));
}

}  // namespace

Findings check_memlock(const Machine& machine) {
  const std::string what = "memory that may be locked (RLIMIT_MEMLOCK)";
  const auto limit = machine.system.memory_lock_limit();
  if (!limit) return {unknown(what, limit.error())};
  if (*limit == UINT64_MAX) return {ok(what, "unlimited")};
  if (may_exceed_lock_limit(machine.files)) {
    return {ok(what, size_shown(*limit) + ", and this process may exceed it (CAP_IPC_LOCK)")};
  }
  const std::string remedy =
      "a login: \"* - memlock unlimited\" in /etc/security/limits.d/tally.conf; a service: "
      "LimitMEMLOCK=infinity in its unit; a container: docker run --ulimit memlock=-1:-1";
  if (rdma_devices(machine.files).empty()) {
    return {note(what, size_shown(*limit) + ": enough without RDMA, which registers all gradients",
                 remedy)};
  }
  if (*limit < kLeastLocked) {
    return {problem(what,
                    size_shown(*limit) + ": registering gradients with an RDMA device will fail",
                    remedy)};
  }
  return {warning(what, size_shown(*limit) + ": all gradients that are registered must fit into it",
                  remedy)};
}

Findings check_hugepages(const Machine& machine) {
  return {pages_of_the_engine(machine), pages_of_shared_memory(machine.files)};
}

Findings check_memory(const Machine& machine) {
  const std::string what = "memory of this process's cgroup";
  const std::uint64_t limit = cgroup_memory_limit(machine.files.at("/sys/fs/cgroup"),
                                                  machine.files.at("/proc/self/cgroup"));
  // Version 1 of cgroups writes "no limit" as a number that is larger than any machine's memory.
  if (limit == UINT64_MAX || limit >= memory_of_the_machine(machine.files)) {
    return {ok(what, "no limit")};
  }
  const std::string raise =
      "a service: MemoryMax= in its unit; a container: docker run --memory=16g";
  const std::uint64_t for_peers = memory_for_peers(limit);
  if (machine.config && machine.config->limits.node_region_bytes > for_peers) {
    return {
        warning(what,
                fmt::format("{}, and limits.node_region_bytes is {}: peers can make the node "
                            "pay for their memory, and the kernel then ends it",
                            size_shown(limit), size_text(machine.config->limits.node_region_bytes)),
                "leave limits.node_region_bytes out; or " + raise)};
  }
  if (limit < kLittleMemory) {
    return {warning(what,
                    fmt::format("{}: {} of it may be registered by workers", size_shown(limit),
                                size_shown(for_peers)),
                    raise)};
  }
  return {ok(what, fmt::format("{}, {} of it for regions of workers", size_shown(limit),
                               size_shown(for_peers)))};
}

}  // namespace tally::control::doctor
