// Packet sizes: of ports, of their interfaces, and of the path to a host.
#include <fmt/format.h>

#include <algorithm>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

// Bytes around the payload of a RoCE v2 packet: IPv6 40, UDP 8, BTH 12, RETH 16, ICRC 4.
constexpr std::uint32_t kRoceHeaders = 80;
constexpr std::uint32_t kLargestPayload = 4096;  // of RDMA
// Enough for the largest payload and for longer headers. Switches usually have 9000.
constexpr std::uint32_t kJumbo = 4200;

std::string raise_mtu(const std::string& interface) {
  return fmt::format(
      "ip link set dev {} mtu 9000 (at least {}), on every machine, and the same or "
      "more at the switch's ports",
      interface, kJumbo);
}

// 0 when the MTU is unknown.
std::uint32_t active_mtu(const Result<VerbsLibrary>& library, const RdmaPort& port) {
  if (!library) return 0;
  for (const VerbsDevice& device : library->devices) {
    if (device.name == port.device && port.number >= 1 &&
        port.number <= device.active_mtus.size()) {
      return device.active_mtus[port.number - 1];
    }
  }
  return 0;
}

Finding roce_mtu(const Files& files, const RdmaPort& port, const std::string& interface,
                 std::uint32_t active) {
  const std::string what = fmt::format("{} on {}", port.name(), interface);
  const auto mtu = mtu_of(files, interface);
  if (!mtu) return unknown(what, mtu.error());
  const std::string value =
      active == 0
          ? fmt::format("{} bytes; the port's own is unknown (libibverbs cannot open it)", *mtu)
          : fmt::format("{} bytes, payload of a packet {}", *mtu, active);
  if (active + kRoceHeaders > *mtu && active > 0) {
    return problem(what, fmt::format("{}: with {} of headers it does not fit", value, kRoceHeaders),
                   raise_mtu(interface));
  }
  if (*mtu < kJumbo) {
    return warning(what, fmt::format("{}, of {} that are possible", value, kLargestPayload),
                   raise_mtu(interface));
  }
  return ok(what, value);
}

Finding infiniband_mtu(const RdmaPort& port, std::uint32_t active) {
  if (active == 0) {
    return unknown(port.name(), {Status::kInternal, "libibverbs cannot open it"});
  }
  const std::string value = fmt::format("payload of a packet {}", active);
  if (active >= kLargestPayload) return ok(port.name(), value);
  return note(
      port.name(), value,
      "4096 may be possible: ibv_devinfo shows max_mtu; the subnet manager's partitions.conf "
      "(mtu=5) and the switches limit it");
}

// Compares the MTU of the configuration with that of the port.
Finding configured_mtu(const RdmaPort& port, std::uint32_t wanted, std::uint32_t active) {
  const std::string what = fmt::format("network.mtu, on {}", port.name());
  if (active == 0 || wanted == active) return ok(what, fmt::format("{}", wanted));
  if (wanted > active) {
    return warning(what, fmt::format("{}, and the port has {}: that is used", wanted, active),
                   "raise the MTU of its interface, or set network.mtu = 0");
  }
  return note(
      what, fmt::format("{}, of {} that the port has", wanted, active),
      "network.mtu = 0 where all switches pass the port's: tallyctl doctor --path shows it");
}

// Reports what the MTU of a card without an RDMA port means for TCP.
Finding card_mtu(const Files& files, const std::string& interface) {
  const auto mtu = mtu_of(files, interface);
  if (!mtu) return unknown(interface, mtu.error());
  const std::string value = fmt::format("{} bytes", *mtu);
  if (*mtu >= kJumbo) return ok(interface, value);
  return note(interface, value + ": jumbo frames cost TCP less of the CPU", raise_mtu(interface));
}

std::string try_by_hand(const PathMtu& path) {
  const bool is_v6 = path.address.find(':') != std::string::npos;
  const std::uint32_t headers = is_v6 ? 48 : 28;  // IP and ICMP
  return fmt::format("ping {}-M do -c 3 -s {} {}", is_v6 ? "-6 " : "", path.mtu - headers,
                     path.address);
}

Finding path_finding(const PathMtu& path) {
  const std::string what = "to " + path.address;
  if (!path.failure.empty()) {
    return warning(what, path.failure, fmt::format("ip route get {}", path.address));
  }
  if (path.arrived == 0) {
    return note(what,
                fmt::format("{} bytes by this machine's routes; not verified: the host answers "
                            "nothing, of no size",
                            path.mtu),
                "try it by hand, both ways: " + try_by_hand(path));
  }
  if (path.arrived < path.mtu) {
    return problem(what,
                   fmt::format("packets of {} bytes get lost on the way, of {} arrive: a switch or "
                               "the host has a smaller MTU",
                               path.mtu, path.arrived),
                   fmt::format("raise it there, or lower this machine's: ip route get {} names the "
                               "interface, ip link set dev INTERFACE mtu {}",
                               path.address, path.arrived));
  }
  const std::string value =
      fmt::format("packets of {} bytes arrive (verified from here to there)", path.arrived);
  if (path.mtu >= kJumbo) return ok(what, value);
  return note(what, value + "; larger ones leave this machine not at all",
              "for jumbo frames, at every machine and switch on the way: ip link set dev INTERFACE "
              "mtu 9000");
}

}  // namespace

Findings check_mtu(const Machine& machine) {
  Findings findings;
  const auto ports = active_ports(machine.files);
  if (!ports.empty()) {
    const auto library = machine.system.verbs_library({});
    for (const RdmaPort& port : ports) {
      const std::uint32_t active = active_mtu(library, port);
      if (machine.config && machine.config->mtu != 0) {
        findings.push_back(configured_mtu(port, machine.config->mtu, active));
      }
      if (!port.is_ethernet()) findings.push_back(infiniband_mtu(port, active));
      if (!port.is_ethernet()) continue;
      for (const std::string& interface : interfaces_of(machine.files, port)) {
        findings.push_back(roce_mtu(machine.files, port, interface, active));
      }
    }
  } else {
    for (const std::string& interface : network_cards(machine.files)) {
      findings.push_back(card_mtu(machine.files, interface));
    }
  }
  if (findings.empty()) findings.push_back(ok("MTU", "no network card is up here"));
  return findings;
}

Findings check_path(const Machine& machine) {
  if (machine.path_to.empty()) return {};
  const auto paths = machine.system.path_mtus(machine.path_to);
  if (!paths) {
    return {problem("to " + machine.path_to, paths.error().message,
                    "give --path a name or an address of a machine that is there")};
  }
  Findings findings;
  for (const PathMtu& path : *paths) findings.push_back(path_finding(path));
  return findings;
}

}  // namespace tally::control::doctor
