// The checks of tallyctl doctor. Each examines one frequent problem of RDMA deployments. No check
// needs a node, changes the machine, or depends on another check.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/cli/doctor/finding.h"
#include "control/cli/doctor/system.h"
#include "control/config/config.h"
#include "control/machine/cpu_assignment.h"
#include "control/machine/files.h"

namespace tally::control::doctor {

// The examined machine, and the arguments of the command.
struct Machine {
  Files files;
  System& system;
  std::optional<Config> config;    // of the node that will run here; no value: no file was given
  std::string path_to;             // a host; empty: do not probe a path
  std::string address;             // address at which a node may answer
  bool address_was_given = false;  // true: a node must answer there
  double timeout = 5;              // seconds to wait for the node's answer
};

struct Check {
  std::string_view name;
  std::string_view about;
  Findings (*run)(const Machine&);
};

// Returns all checks in the order of a report: the checks that others build upon come first.
std::span<const Check> all_checks();
// Returns null when no check has this name.
const Check* find_check(std::string_view name);

// Runs a check. A failure of the check itself becomes a finding too.
Examined examine(const Check& check, const Machine& machine);

// Returns the CPUs on which the shards of this configuration would run. Without a configuration,
// returns the CPUs of this process.
Result<std::vector<int>> shard_cpus(const Machine& machine);

// The CPUs of this configuration's shards, near their NICs. `places` is empty when the hardware or
// the NICs decide nothing. The EAL then places the shards (dataplane/engine/eal.h).
struct ShardPlacing {
  Hardware hardware;
  std::vector<CpuAssignment> places;
};
ShardPlacing shard_placing(const Machine& machine);

// Returns the device that this configuration names, and the address at which its node listens.
VerbsWish verbs_wish(const Machine& machine);

Findings check_devices(const Machine& machine);
Findings check_libraries(const Machine& machine);
Findings check_ports(const Machine& machine);
Findings check_gids(const Machine& machine);
Findings check_mtu(const Machine& machine);
Findings check_path(const Machine& machine);
Findings check_memlock(const Machine& machine);
Findings check_hugepages(const Machine& machine);
Findings check_rails(const Machine& machine);
Findings check_roce(const Machine& machine);
Findings check_numa(const Machine& machine);
Findings check_counters(const Machine& machine);
Findings check_pfc(const Machine& machine);
Findings check_gpu(const Machine& machine);
Findings check_cpu(const Machine& machine);
Findings check_memory(const Machine& machine);
Findings check_tcp(const Machine& machine);
Findings check_node(const Machine& machine);

}  // namespace tally::control::doctor
