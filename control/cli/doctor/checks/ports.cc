// Ports of RDMA devices: their links and their addresses.
#include <fmt/format.h>

#include <algorithm>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

std::string interface_for(const Files& files, const RdmaPort& port) {
  const auto interfaces = interfaces_of(files, port);
  return interfaces.empty() ? "INTERFACE" : interfaces.front();
}

std::string remedy_for_link(const Files& files, const RdmaPort& port, const std::string& state,
                            const std::string& link) {
  if (!port.is_ethernet()) {
    if (state == "INIT") return "start a subnet manager: systemctl start opensm (on one machine)";
    return "look at the cable and at the switch's port; ibstat " + port.device;
  }
  const std::string interface = interface_for(files, port);
  if (link == "Disabled") return fmt::format("ip link set dev {} up", interface);
  return fmt::format("ip link set dev {0} up; look at cable and switch: ethtool {0}", interface);
}

Finding link_of(const Files& files, const RdmaPort& port, bool another_is_active) {
  const auto state = files.read(port.folder() + "/state");
  if (!state) return unknown(port.name(), state.error());
  const auto link = files.read(port.folder() + "/phys_state");
  const auto rate = files.read(port.folder() + "/rate");
  const std::string name = state_name(*state);
  const std::string link_name = link ? state_name(*link) : "unknown";
  const std::string value =
      fmt::format("{}, {}, {}, {}", name, link_name,
                  port.link_layer.empty() ? "unknown link layer" : port.link_layer,
                  rate ? *rate : "unknown rate");
  if (name == "ACTIVE") return ok(port.name(), value);
  // A card may have ports without a cable.
  const Level level = another_is_active ? Level::kWarning : Level::kProblem;
  return {level, port.name(), value, remedy_for_link(files, port, name, link_name)};
}

std::string place_of(const Gid& gid) {
  return gid.interface.empty() ? gid.address : fmt::format("{} on {}", gid.address, gid.interface);
}

Finding roce_gid(const Files& files, const RdmaPort& port) {
  const auto gids = gids_of(files, port);
  if (const Gid* gid = preferred_gid(gids)) {
    return ok(port.name(), fmt::format("RoCE v2, {}; index {} would be picked, of {} in use",
                                       place_of(*gid), gid->index, gids.size()));
  }
  const std::string interface = interface_for(files, port);
  const std::string remedy = fmt::format(
      "ip address add 10.0.0.1/24 dev {0} (an address of your network), ip link set "
      "dev {0} up",
      interface);
  if (gids.empty()) return problem(port.name(), "no GID: its interface has no address", remedy);
  const bool has_v2 =
      std::any_of(gids.begin(), gids.end(), [](const Gid& gid) { return gid.is_roce_v2; });
  if (has_v2) {
    return warning(port.name(),
                   fmt::format("RoCE v2 with link-local addresses alone ({}): it crosses no router",
                               place_of(gids.front())),
                   remedy);
  }
  return problem(port.name(),
                 fmt::format("RoCE v1 alone ({} entries), which is not spoken here", gids.size()),
                 fmt::format("switch RoCE v2 on: cma_roce_mode -d {} -p {} -m 2; else the card or "
                             "its firmware is too old, and TCP (transport fabric) is left",
                             port.device, port.number));
}

Finding infiniband_gid(const Files& files, const RdmaPort& port) {
  const auto gids = gids_of(files, port);
  if (!gids.empty()) return ok(port.name(), "InfiniBand: " + place_of(gids.front()));
  return problem(port.name(), "no GID: the subnet manager has not set one",
                 "systemctl start opensm (on one machine of the network)");
}

// The transport reports which of all ports it would choose.
Finding chosen_by_transport(const Machine& machine) {
  const std::string what = "transport verbs";
  if (machine.config && machine.config->verbs == Offer::kOff) {
    return ok(what, "switched off by network.verbs");
  }
  const auto library = machine.system.verbs_library(verbs_wish(machine));
  if (!library) return unknown(what, library.error());
  if (library->none_chosen.empty()) return ok(what, library->chosen);
  return problem(what, library->none_chosen,
                 machine.config && !machine.config->device.empty()
                     ? "correct network.device, or leave it out"
                     : "tallyctl doctor --check devices --check libraries --check ports");
}

}  // namespace

Findings check_ports(const Machine& machine) {
  const auto ports = rdma_ports(machine.files);
  if (ports.empty()) return {ok("RDMA ports", "none")};
  const bool one_is_active = !active_ports(machine.files).empty();
  Findings findings;
  for (const RdmaPort& port : ports) {
    findings.push_back(link_of(machine.files, port, one_is_active));
  }
  return findings;
}

Findings check_gids(const Machine& machine) {
  const auto ports = active_ports(machine.files);
  if (ports.empty()) return {ok("GIDs", "no RDMA port is active, so none are needed")};
  Findings findings;
  for (const RdmaPort& port : ports) {
    findings.push_back(port.is_ethernet() ? roce_gid(machine.files, port)
                                          : infiniband_gid(machine.files, port));
  }
  findings.push_back(chosen_by_transport(machine));
  return findings;
}

}  // namespace tally::control::doctor
