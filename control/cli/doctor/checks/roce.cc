// The Ethernet port that network.roce gives to DPDK.
#include <fmt/format.h>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"
#include "control/config/roce_address.h"
#include "control/config/roce_device.h"

namespace tally::control::doctor {
namespace {

constexpr std::string_view kMellanox = "0x15b3";
constexpr std::string_view kEthernetClass = "0x0200";
// An IP packet with RoCE's payload of 4096 bytes, and with the most that net_af_xdp takes.
constexpr std::uint64_t kWholeMtu = 4180;
constexpr std::uint64_t kXdpMtu = 2132;
constexpr std::string_view kBeforeRemedy = ": ";  // in an error of roce_address()

Finding of_driver(const Files& files, const std::string& address) {
  const std::string what = "driver of " + address;
  if (files.exists(fmt::format("/sys/bus/pci/drivers/vfio-pci/{}", address))) {
    return ok(what, "vfio-pci");
  }
  return problem(what, "not vfio-pci: DPDK cannot take the NIC",
                 fmt::format("modprobe vfio-pci; dpdk-devbind.py --bind vfio-pci {} (the kernel "
                             "loses the interface)",
                             address));
}

Finding of_iommu(const Files& files, const std::string& address) {
  const std::string what = "IOMMU of " + address;
  if (files.exists(fmt::format("{}/{}/iommu_group", kPci, address))) return ok(what, "translates");
  return problem(
      what, "off: vfio-pci does not give the NIC to a process",
      "switch it on in the firmware (VT-d, AMD-Vi), and boot with intel_iommu=on on Intel");
}

Finding of_pages(const Config& config, const std::string& address) {
  const std::string what = "hugepages for " + address;
  if (config.hugepages != engine::Hugepages::kOff) {
    return ok(what, "memory.hugepages allows them; the check hugepages counts the free ones");
  }
  return problem(what, "memory.hugepages = \"off\"", "set it to \"on\": NICs of DPDK need them");
}

// By the rules of tallyd. `interface`: that of the kernel; empty: the port has none.
Finding of_address(const Machine& machine, const std::string& port, const std::string& interface) {
  const std::string what = "address of " + port;
  const std::vector<Interface> all = machine.system.interfaces();
  const auto address = roce_address(*machine.config, all);
  if (!address) {
    const std::string& message = address.error().message;
    const std::size_t end = message.find(kBeforeRemedy);
    if (end == message.npos) return problem(what, message, "change network.roce_address");
    return problem(what, message.substr(0, end), message.substr(end + kBeforeRemedy.size()));
  }
  if (address->is_beside_kernel) {
    return ok(what, fmt::format("{}, which the port shares with the kernel: packets of RoCE go to "
                                "the node, all others to the kernel",
                                address->text));
  }
  const std::vector<std::string> of_kernel = kernel_addresses(interface, all);
  if (of_kernel.empty()) return ok(what, address->text + ", which only the port has");
  const std::string found =
      fmt::format("the kernel has {} on {}", fmt::join(of_kernel, ", "), port);
  if (RoceDevice(machine.config->roce).is_xdp()) {
    return warning(
        what, found + ", where it receives nothing while the node runs: the port takes all packets",
        fmt::format("to share the interface with the kernel, write network.roce_address without a "
                    "prefix, or leave it out; otherwise: ip address flush dev {}",
                    interface));
  }
  return warning(
      what, found + ", and receives a copy of each packet of the port, which it may answer too",
      fmt::format("ip address flush dev {}; or share the interface with the kernel, by "
                  "network.roce = \"net_af_xdp0,iface={}\" and tallyd-nics",
                  interface, interface));
}

Findings of_nic(const Machine& machine, const std::string& address) {
  const Files& files = machine.files;
  const std::string what = "network.roce " + address;
  const auto pci_class = files.read(fmt::format("{}/{}/class", kPci, address));
  if (!pci_class || !pci_class->starts_with(kEthernetClass)) {
    return {problem(what, pci_class ? "no Ethernet NIC" : "no such device on the PCI bus",
                    "lspci -D -d ::0200 lists the NICs with their addresses")};
  }
  const auto vendor = files.read(fmt::format("{}/{}/vendor", kPci, address));
  if (vendor && *vendor == kMellanox) {
    return {note(what, "an NVIDIA NIC: only tallyd-nics has DPDK's driver for it",
                 "start tallyd-nics, or leave network.roce away: the NIC has RDMA itself "
                 "(network.device)"),
            of_pages(*machine.config, address), of_address(machine, address, "")};
  }
  return {ok(what, "an Ethernet NIC"), of_driver(files, address), of_iommu(files, address),
          of_pages(*machine.config, address), of_address(machine, address, "")};
}

// whole: the MTU from which on packets carry as much as they can.
Findings of_interface(const Machine& machine, const std::string& name, std::uint64_t whole) {
  const std::string what = "network.roce " + name;
  const std::string folder = "/sys/class/net/" + name;
  const auto mtu = machine.files.number(folder + "/mtu");
  if (name.empty() || !mtu) {
    return {problem(what, "no such interface",
                    "ip link lists them; network.roce names it as in net_af_packet0,iface=eth1")};
  }
  Findings findings;
  const auto state = machine.files.read(folder + "/operstate");
  if (state && *state == "down") {
    findings.push_back(problem(what, "the interface is down", "ip link set " + name + " up"));
  }
  findings.push_back(of_address(machine, name, name));
  findings.push_back(*mtu >= whole
                         ? ok("MTU of " + name, std::to_string(*mtu))
                         : note("MTU of " + name,
                                fmt::format("{}: packets carry less than they could", *mtu),
                                fmt::format("ip link set {} mtu 9000, also at switches", name)));
  return findings;
}

// The kernel lists the kinds of its sockets.
Finding of_xdp(const Files& files) {
  const auto kinds = files.read("/proc/net/protocols");
  if (!kinds) {
    return unknown("AF_XDP", {Status::kUnavailable, "/proc/net/protocols cannot be read"});
  }
  if (kinds->find("XDP") != std::string::npos) return ok("AF_XDP", "the kernel has it");
  return problem(
      "AF_XDP", "the kernel is built without it (CONFIG_XDP_SOCKETS)",
      "use net_af_packet0, with an address in network.roce_address that only the port has");
}

}  // namespace

// Virtual devices without an interface of the kernel have nothing that files show.
Findings check_roce(const Machine& machine) {
  if (!machine.config || machine.config->roce.empty()) {
    return {ok("network.roce", machine.config ? "not set" : "unknown without --config FILE")};
  }
  const RoceDevice device(machine.config->roce);
  if (device.is_on_pci()) return of_nic(machine, device.name());
  const std::string interface = device.argument("iface");
  if (device.name().starts_with("net_af_packet")) {
    return of_interface(machine, interface, kWholeMtu);
  }
  if (device.is_xdp()) {
    Findings findings = of_interface(machine, interface, kXdpMtu);
    findings.push_back(of_xdp(machine.files));
    findings.push_back(note("driver of " + interface, "only tallyd-nics has it",
                            "start tallyd-nics in place of tallyd"));
    return findings;
  }
  return {ok("network.roce", device.name() + ", a virtual device"),
          of_address(machine, device.name(), "")};
}

}  // namespace tally::control::doctor
