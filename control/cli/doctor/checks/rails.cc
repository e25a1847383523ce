// The NICs that a configuration names: whether they exist, are up, are on separate networks, and
// are near their shards.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/speed.h"
#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"
#include "control/config/rails.h"

namespace tally::control::doctor {
namespace {

constexpr double kMegabit = 1e6 / 8;

// The speed that the driver reports, in bytes per second. 0: it reports none, as virtual interfaces
// and interfaces without a link do.
double link_speed(const Files& files, const std::string& interface) {
  const auto megabits = files.number(fmt::format("{}/{}/speed", kNet, interface));
  return megabits ? static_cast<double>(*megabits) * kMegabit : 0;
}

// "; shards 0, 2 on CPUs 4, 5" when the shards have CPUs.
std::string with_places(const std::vector<CpuAssignment>& places, std::size_t rails,
                        std::uint32_t rail) {
  std::string shards, cpus;
  for (std::uint32_t i = rail; i < places.size(); i += static_cast<std::uint32_t>(rails)) {
    shards += fmt::format("{}{}", shards.empty() ? "" : ", ", i);
    cpus += fmt::format("{}{}", cpus.empty() ? "" : ", ", places[i].cpu);
  }
  return shards.empty() ? "" : fmt::format("; shards {} on CPUs {}", shards, cpus);
}

std::size_t far_shards(const ShardPlacing& placing, std::size_t rails, std::uint32_t rail,
                       int node) {
  std::size_t far = 0;
  for (std::size_t i = rail; i < placing.places.size(); i += rails) {
    far += node != kNoNode && placing.places[i].node != node ? 1 : 0;
  }
  return far;
}

Finding rail_finding(const Machine& machine, const std::vector<Rail>& rails, std::uint32_t number,
                     const std::vector<Interface>& all, const ShardPlacing& placing) {
  const Rail& rail = rails[number];
  const std::string what = fmt::format("rail {}, {}", number, rail.address);
  const Interface* interface = interface_of(all, rail.address);
  if (interface == nullptr) {
    return problem(what, "no interface of this machine has this address: tallyd leaves it out",
                   "ip address shows which there are; mend network.rails or the interface");
  }
  if (!interface->up) {
    return warning(
        what, fmt::format("{} is down, or has no link: jobs leave it out", interface->name),
        fmt::format("ip link set {} up; look at its cable and at the switch", interface->name));
  }
  const double speed = link_speed(machine.files, interface->name);
  std::string value = interface->name;
  if (speed > 0) value += ", " + speed_text(speed);
  value += with_places(placing.places, rails.size(), number);
  const int node = node_of_nic(placing.hardware, interface->name);
  const std::size_t far = far_shards(placing, rails.size(), number, node);
  if (far > 0) {
    return warning(
        what, fmt::format("{}; it is at node{}, and {} of its shards are not", value, node, far),
        fmt::format("let tallyd use more cores of node{} (taskset, CPUAffinity), or "
                    "lower shards.count",
                    node));
  }
  if (speed > 0 && static_cast<double>(rail.speed) > 1.05 * speed) {
    return note(what,
                fmt::format("{}, and network.speeds says {}", value,
                            speed_text(static_cast<double>(rail.speed))),
                "jobs are cut by network.speeds: write what the NIC carries");
  }
  return ok(what, value);
}

bool same_network(const Interface& a, const Interface& b) {
  if (a.prefix != b.prefix) return false;
  const auto bits = [](const Interface& one) { return address_bits(one.address); };
  const auto first = bits(a), second = bits(b);
  return first.size() == second.size() &&
         first.compare(0, static_cast<std::size_t>(a.prefix), second, 0,
                       static_cast<std::size_t>(a.prefix)) == 0;
}

// The kernel sends all packets for one network by one interface.
void add_shared_networks(const std::vector<Rail>& rails, const std::vector<Interface>& all,
                         Findings& findings) {
  for (std::size_t i = 0; i < rails.size(); ++i) {
    for (std::size_t j = i + 1; j < rails.size(); ++j) {
      const Interface* a = interface_of(all, rails[i].address);
      const Interface* b = interface_of(all, rails[j].address);
      if (a == nullptr || b == nullptr || !same_network(*a, *b)) continue;
      findings.push_back(warning(
          fmt::format("rails {} and {}", i, j),
          fmt::format("{} and {} are on one network: routes send by one of them", a->name, b->name),
          "give each NIC a subnet of its own, the same on all machines"));
    }
  }
}

}  // namespace

Findings check_rails(const Machine& machine) {
  if (!machine.config) return {ok("rails", "only a configuration (--config) names them")};
  const auto rails = configured_rails(*machine.config);
  if (!rails) return {unknown("rails", rails.error())};
  if (rails->empty()) return {ok("rails", "network.rails names none: one NIC, that of listen_tcp")};
  const auto all = machine.system.interfaces();
  const ShardPlacing placing = shard_placing(machine);
  Findings findings;
  for (std::uint32_t i = 0; i < rails->size(); ++i) {
    findings.push_back(rail_finding(machine, *rails, i, all, placing));
  }
  add_shared_networks(*rails, all, findings);
  return findings;
}

}  // namespace tally::control::doctor
