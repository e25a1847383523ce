#include "control/cli/doctor/rdma.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

namespace tally::control::doctor {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(name);
}

std::string text_of(const Files& files, const std::string& path) {
  const auto text = files.read(path);
  return text ? *text : std::string();
}

// Fills in kind and address. Returns false when the entry is not in use or is not a GID.
bool parse_gid(const std::string& text, Gid& gid) {
  in6_addr bytes{};
  if (::inet_pton(AF_INET6, text.c_str(), &bytes) != 1 || IN6_IS_ADDR_UNSPECIFIED(&bytes)) {
    return false;
  }
  char address[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    gid.kind = GidKind::kIpv4;
    ::inet_ntop(AF_INET, &bytes.s6_addr[12], address, sizeof address);
  } else {
    gid.kind = IN6_IS_ADDR_LINKLOCAL(&bytes) ? GidKind::kLinkLocal : GidKind::kIpv6;
    ::inet_ntop(AF_INET6, &bytes, address, sizeof address);
  }
  gid.address = address;
  return true;
}

}  // namespace

std::string RdmaPort::folder() const {
  return fmt::format("{}/{}/ports/{}", kInfiniband, device, number);
}

std::string RdmaPort::name() const {
  return fmt::format("{}/{}", device, number);
}

std::vector<std::string> rdma_devices(const Files& files) {
  return files.list(kInfiniband);
}

std::vector<RdmaPort> rdma_ports(const Files& files) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : rdma_devices(files)) {
    for (const std::string& name : files.list(fmt::format("{}/{}/ports", kInfiniband, device))) {
      const auto number = leading_number(name);
      if (!number) continue;
      RdmaPort port{device, static_cast<std::uint32_t>(*number), {}};
      port.link_layer = text_of(files, port.folder() + "/link_layer");
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::vector<RdmaPort> active_ports(const Files& files) {
  auto ports = rdma_ports(files);
  const auto inactive = [&files](const RdmaPort& port) {
    return state_name(text_of(files, port.folder() + "/state")) != "ACTIVE";
  };
  ports.erase(std::remove_if(ports.begin(), ports.end(), inactive), ports.end());
  return ports;
}

std::string state_name(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::vector<Gid> gids_of(const Files& files, const RdmaPort& port) {
  std::vector<Gid> gids;
  for (const std::string& name : files.list(port.folder() + "/gids")) {
    const auto index = leading_number(name);
    Gid gid;
    if (!index || !parse_gid(text_of(files, port.folder() + "/gids/" + name), gid)) continue;
    gid.index = static_cast<std::uint32_t>(*index);
    // The attributes of an entry that is not in use cannot be read.
    gid.is_roce_v2 = text_of(files, port.folder() + "/gid_attrs/types/" + name) == "RoCE v2";
    gid.interface = text_of(files, port.folder() + "/gid_attrs/ndevs/" + name);
    gids.push_back(std::move(gid));
  }
  return gids;
}

const Gid* preferred_gid(const std::vector<Gid>& gids) {
  for (const GidKind kind : {GidKind::kIpv4, GidKind::kIpv6}) {
    for (const Gid& gid : gids) {
      if (gid.is_roce_v2 && gid.kind == kind) return &gid;
    }
  }
  return nullptr;
}

std::vector<std::string> interfaces_of(const Files& files, const RdmaPort& port) {
  std::vector<std::string> names;
  for (const Gid& gid : gids_of(files, port)) add_once(names, gid.interface);
  if (!names.empty()) return names;
  // A port has no GIDs while its interface is down. Soft-RoCE names its interface; a card has it in
  // a folder below the device.
  const std::string device = fmt::format("{}/{}", kInfiniband, port.device);
  add_once(names, text_of(files, device + "/parent"));
  if (names.empty()) names = files.list(device + "/device/net");
  return names;
}

std::vector<std::string> roce_interfaces(const Files& files) {
  std::vector<std::string> names;
  for (const RdmaPort& port : active_ports(files)) {
    if (!port.is_ethernet()) continue;
    for (const std::string& name : interfaces_of(files, port)) add_once(names, name);
  }
  return names;
}

std::vector<std::string> network_cards(const Files& files) {
  std::vector<std::string> names;
  for (const std::string& name : files.list(kNet)) {
    const std::string folder = fmt::format("{}/{}", kNet, name);
    if (!files.exists(folder + "/device")) continue;
    if (text_of(files, folder + "/operstate") == "down") continue;
    names.push_back(name);
  }
  return names;
}

Result<std::uint32_t> mtu_of(const Files& files, const std::string& interface) {
  const auto mtu = files.number(fmt::format("{}/{}/mtu", kNet, interface));
  if (!mtu) return mtu.error();
  return static_cast<std::uint32_t>(*mtu);
}

}  // namespace tally::control::doctor
