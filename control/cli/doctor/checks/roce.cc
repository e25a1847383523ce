// The Ethernet port that network.roce gives to DPDK.
#include <fmt/format.h>

#include <algorithm>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"
#include "control/config/roce_device.h"

namespace tally::control::doctor {
namespace {

constexpr std::string_view kMellanox = "0x15b3";
constexpr std::string_view kEthernetClass = "0x0200";
// An IP packet with RoCE's payload of 4096 bytes, and with the most that net_af_xdp takes.
constexpr std::uint64_t kWholeMtu = 4180;
constexpr std::uint64_t kXdpMtu = 2132;

Finding of_driver(const Files& files, const std::string& slot) {
  const std::string what = "driver of " + slot;
  if (files.exists(fmt::format("/sys/bus/pci/drivers/vfio-pci/{}", slot))) {
    return ok(what, "vfio-pci");
  }
  return problem(what, "not vfio-pci: DPDK cannot take the NIC",
                 fmt::format("modprobe vfio-pci; dpdk-devbind.py --bind vfio-pci {} (the kernel "
                             "loses the interface)",
                             slot));
}

Finding of_iommu(const Files& files, const std::string& slot) {
  const std::string what = "IOMMU of " + slot;
  if (files.exists(fmt::format("{}/{}/iommu_group", kPci, slot))) return ok(what, "translates");
  return problem(
      what, "off: vfio-pci does not give the NIC to a process",
      "switch it on in the firmware (VT-d, AMD-Vi), and boot with intel_iommu=on on Intel");
}

Finding of_pages(const Config& config, const std::string& slot) {
  const std::string what = "hugepages for " + slot;
  if (config.hugepages != engine::Hugepages::kOff) return ok(what, "wanted: see hugepages");
  return problem(what, "memory.hugepages = \"off\"", "set it to \"on\": NICs of DPDK need them");
}

Findings of_nic(const Machine& machine, const std::string& slot) {
  const Files& files = machine.files;
  const std::string what = "network.roce " + slot;
  const auto pci_class = files.read(fmt::format("{}/{}/class", kPci, slot));
  if (!pci_class || !pci_class->starts_with(kEthernetClass)) {
    return {problem(what, pci_class ? "no Ethernet NIC" : "no such device on the PCI bus",
                    "lspci -D -d ::0200 lists the NICs with their addresses")};
  }
  const auto vendor = files.read(fmt::format("{}/{}/vendor", kPci, slot));
  if (vendor && *vendor == kMellanox) {
    return {note(what, "an NVIDIA NIC: only tallyd-nics has DPDK's driver for it",
                 "start tallyd-nics, or leave network.roce away: the NIC has RDMA itself "
                 "(network.device)"),
            of_pages(*machine.config, slot)};
  }
  return {ok(what, "an Ethernet NIC"), of_driver(files, slot), of_iommu(files, slot),
          of_pages(*machine.config, slot)};
}

// whole: the MTU from which on packets carry as much as they can.
Findings of_interface(const Machine& machine, const std::string& name, std::uint64_t whole) {
  const std::string what = "network.roce " + name;
  const std::string folder = "/sys/class/net/" + name;
  const auto mtu = machine.files.number(folder + "/mtu");
  if (!mtu) return {problem(what, "no such interface", "ip link lists them")};
  Findings findings;
  const auto state = machine.files.read(folder + "/operstate");
  if (state && *state == "down") {
    findings.push_back(problem(what, "down", "ip link set " + name + " up"));
  }
  const auto all = machine.system.interfaces();
  const bool has_address = std::any_of(all.begin(), all.end(), [&](const Interface& one) {
    return one.name == name && one.address.find("fe80:") != 0;
  });
  if (has_address) {
    findings.push_back(warning(what, "has an address of the kernel, which answers there too",
                               "ip address flush dev " + name));
  }
  findings.push_back(*mtu >= whole
                         ? ok("MTU of " + name, std::to_string(*mtu))
                         : note("MTU of " + name,
                                fmt::format("{}: packets carry less than they could", *mtu),
                                fmt::format("ip link set {} mtu 9000, also at switches", name)));
  return findings;
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
  if (device.name().starts_with("net_af_xdp")) {
    Findings findings = of_interface(machine, interface, kXdpMtu);
    findings.push_back(note("driver of " + interface, "only tallyd-nics has it",
                            "start tallyd-nics in place of tallyd"));
    return findings;
  }
  return {ok("network.roce", device.name() + ", a virtual device")};
}

}  // namespace tally::control::doctor
