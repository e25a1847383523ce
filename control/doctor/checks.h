// The checks: each looks at one thing that people stumble over who deploy RDMA. None needs a node,
// changes anything, or relies on another one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/config.h"
#include "control/doctor/files.h"
#include "control/doctor/finding.h"
#include "control/doctor/system.h"
#include "control/shard_places.h"

namespace tally::control::doctor {

// What is examined, and what was asked for.
struct Machine {
  Files files;
  System& system;
  std::optional<Config> config;    // of the node that will run here; none: no file was given
  std::string path_to;             // a host; empty: do not ask for one
  std::string address;             // where a node may answer
  bool address_was_given = false;  // then it has to
  double timeout = 5;              // seconds, for the node's answer
};

struct Check {
  std::string_view name;
  std::string_view about;
  Findings (*run)(const Machine&);
};

// In the order of a report: what others build upon comes first.
std::span<const Check> all_checks();
// Null: there is none of this name.
const Check* find_check(std::string_view name);

// Runs a check; what it could not deal with is a finding too.
Examined examine(const Check& check, const Machine& machine);

// The CPUs that shards of this configuration would run on; without one, those of this process.
Result<std::vector<int>> shard_cpus(const Machine& machine);

// Where this configuration's shards would be, near their NICs; no places: where the kernel puts
// them.
struct ShardPlacing {
  Hardware hardware;
  std::vector<ShardPlace> places;
};
ShardPlacing shard_placing(const Machine& machine);

// The device that this configuration names, and the address that its node listens at.
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
Findings check_numa(const Machine& machine);
Findings check_counters(const Machine& machine);
Findings check_pfc(const Machine& machine);
Findings check_gpu(const Machine& machine);
Findings check_cpu(const Machine& machine);
Findings check_memory(const Machine& machine);
Findings check_tcp(const Machine& machine);
Findings check_node(const Machine& machine);

}  // namespace tally::control::doctor
