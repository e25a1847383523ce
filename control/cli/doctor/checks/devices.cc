// Whether there are RDMA devices, and whether this process can use them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

// Cards that are sold for RDMA, and the module that makes RDMA devices of them.
struct Vendor {
  std::string_view id;
  std::string_view device_prefix;  // start of the device's number; empty: any device of the vendor
  std::string_view name;
  std::string_view module;
};
constexpr std::array<Vendor, 5> kVendors = {{
    {"0x15b3", "0x1003", "Mellanox ConnectX-3", "mlx4_ib"},
    {"0x15b3", "0x1007", "Mellanox ConnectX-3 Pro", "mlx4_ib"},
    {"0x15b3", "", "Mellanox/NVIDIA", "mlx5_ib"},
    {"0x14e4", "0x17", "Broadcom NetXtreme", "bnxt_re"},
    {"0x1d0f", "0xefa", "Amazon EFA", "efa"},
}};

struct Card {
  std::string address;  // 0000:3b:00.0
  const Vendor* vendor;
};

bool is_network_class(const std::string& pci_class) {
  return pci_class.starts_with("0x02");  // 0x0200: Ethernet, 0x0207: InfiniBand
}

std::vector<Card> rdma_cards(const Files& files) {
  std::vector<Card> cards;
  for (const std::string& address : files.list(kPci)) {
    const std::string folder = fmt::format("{}/{}", kPci, address);
    const auto vendor = files.read(folder + "/vendor");
    const auto device = files.read(folder + "/device");
    const auto pci_class = files.read(folder + "/class");
    if (!vendor || !device || !pci_class || !is_network_class(*pci_class)) continue;
    const auto known = std::find_if(kVendors.begin(), kVendors.end(), [&](const Vendor& one) {
      return *vendor == one.id && device->starts_with(one.device_prefix);
    });
    if (known != kVendors.end()) cards.push_back({address, &*known});
  }
  return cards;
}

Finding without_devices(const Files& files) {
  const std::string served = "workers on other machines are served over TCP (transport fabric)";
  if (const auto cards = rdma_cards(files); !cards.empty()) {
    const Vendor& vendor = *cards.front().vendor;
    const bool loaded = files.exists(fmt::format("/sys/module/{}", vendor.module));
    return warning("RDMA devices",
                   fmt::format("none, though there is a card of {} at {}: {}", vendor.name,
                               cards.front().address, served),
                   loaded ? fmt::format("{} is loaded: dmesg | grep {} says why it has no device "
                                        "(firmware, RoCE switched off, a namespace)",
                                        vendor.module, vendor.module.substr(0, 4))
                          : fmt::format("modprobe {}; install rdma-core, which loads it at boot",
                                        vendor.module));
  }
  const auto cards = network_cards(files);
  return note("RDMA devices", "none, and no RDMA card that is known here: " + served,
              fmt::format("nothing, if that is what you want; with a card: load its module "
                          "(mlx5_ib, bnxt_re, irdma, efa); to try RDMA without one: modprobe "
                          "rdma_rxe && rdma link add rxe0 type rxe netdev {}",
                          cards.empty() ? "eth0" : cards.front()));
}

// The device file by which programs reach an RDMA device; empty when there is none.
std::string device_file(const Files& files, const std::string& device) {
  constexpr std::string_view kClass = "/sys/class/infiniband_verbs";
  for (const std::string& name : files.list(kClass)) {
    const auto owner = files.read(fmt::format("{}/{}/ibdev", kClass, name));
    if (owner && *owner == device) return "/dev/infiniband/" + name;
  }
  return {};
}

Finding usable(const Machine& machine, const std::string& device) {
  const std::string path = device_file(machine.files, device);
  if (path.empty()) {
    return problem(device, "it has no device file for programs: the module ib_uverbs is missing",
                   "modprobe ib_uverbs");
  }
  const auto used = machine.system.may_use(machine.files.at(path));
  if (used) return ok(device, path + " can be opened");
  if (used.status() == Status::kUnavailable) {
    return problem(device, path + " is not there, which is usual in a container",
                   "docker run --device=/dev/infiniband ...; on a host: udevadm trigger "
                   "--subsystem-match=infiniband_verbs");
  }
  return problem(device, fmt::format("this user may not open {}", path),
                 fmt::format("chmod 0666 {}; for good: a rule in /etc/udev/rules.d with "
                             "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\"",
                             path));
}

// Checks the library of transport fabric. Without it, RDMA is the only network.
Finding fabric_found(const Result<std::string>& version, bool there_are_devices) {
  if (version) return ok("libfabric", *version);
  const std::string remedy = "apt install libfabric1";
  const std::string& why = version.error().message;
  if (there_are_devices) return warning("libfabric", why + "; RDMA alone is left", remedy);
  return problem("libfabric", why + "; no worker on another machine can be served", remedy);
}

Finding verbs_found(const Result<VerbsLibrary>& library, bool there_are_devices) {
  if (library) return ok("libibverbs", library->version);
  const std::string remedy = "apt install libibverbs1 ibverbs-providers";
  if (there_are_devices) return problem("libibverbs", library.error().message, remedy);
  return note("libibverbs", library.error().message, remedy + ", before RDMA is used");
}

// Checks whether libibverbs can use the device. The kernel may have a device that libibverbs cannot
// use, because a driver has a half in user space.
Finding opened(const VerbsLibrary& library, const std::string& device) {
  const auto found = std::find_if(library.devices.begin(), library.devices.end(),
                                  [&device](const VerbsDevice& one) { return one.name == device; });
  if (found == library.devices.end()) {
    return problem(device, "libibverbs does not find it: its driver in user space is missing",
                   "apt install ibverbs-providers");
  }
  if (!found->failure.empty()) {
    return problem(device, fmt::format("libibverbs cannot open it: {}", found->failure),
                   fmt::format("tallyctl doctor --check devices; ibv_devinfo -d {}", device));
  }
  return ok(device, "libibverbs can open it");
}

}  // namespace

Findings check_devices(const Machine& machine) {
  const auto devices = rdma_devices(machine.files);
  if (devices.empty()) return {without_devices(machine.files)};
  Findings findings = {ok("RDMA devices", fmt::format("{}: {}", devices.size(), joined(devices)))};
  for (const std::string& device : devices) findings.push_back(usable(machine, device));
  return findings;
}

Findings check_libraries(const Machine& machine) {
  Findings findings;
  const auto devices = rdma_devices(machine.files);
  findings.push_back(fabric_found(machine.system.libfabric_version(), !devices.empty()));
  const auto verbs = machine.system.verbs_library({});
  findings.push_back(verbs_found(verbs, !devices.empty()));
  for (const std::string& device : devices) {
    if (verbs) findings.push_back(opened(*verbs, device));
  }
  return findings;
}

}  // namespace tally::control::doctor
