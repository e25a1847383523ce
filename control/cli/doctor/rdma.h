// RDMA devices as the kernel presents them, and their network interfaces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "control/machine/files.h"

namespace tally::control::doctor {

inline constexpr std::string_view kInfiniband = "/sys/class/infiniband";
inline constexpr std::string_view kNet = "/sys/class/net";
inline constexpr std::string_view kPci = "/sys/bus/pci/devices";

struct RdmaPort {
  std::string device;  // mlx5_0
  std::uint32_t number = 0;
  std::string link_layer;  // Ethernet, InfiniBand; empty: unknown

  bool is_ethernet() const { return link_layer == "Ethernet"; }
  std::string folder() const;  // /sys/class/infiniband/mlx5_0/ports/1
  std::string name() const;    // mlx5_0/1
};

std::vector<std::string> rdma_devices(const Files& files);
std::vector<RdmaPort> rdma_ports(const Files& files);
// Returns the ports with a link. Many cards have ports without a cable; these have no findings.
std::vector<RdmaPort> active_ports(const Files& files);
// Returns "ACTIVE" for "4: ACTIVE", the kernel's form of states.
std::string state_name(const std::string& text);

enum class GidKind : std::uint8_t { kIpv4, kIpv6, kLinkLocal };

// An entry of a port's GID table. Other machines use it as an address of the port.
struct Gid {
  std::uint32_t index = 0;
  GidKind kind = GidKind::kLinkLocal;
  std::string address;  // 10.0.0.1, fd00::1
  bool is_roce_v2 = false;
  std::string interface;  // empty: unknown or InfiniBand
};

// Returns the entries in use.
std::vector<Gid> gids_of(const Files& files, const RdmaPort& port);

// Returns the entry for other machines: RoCE version 2, IPv4 before routable IPv6, then the lowest
// index. Returns null when there is none.
const Gid* preferred_gid(const std::vector<Gid>& gids);

// Returns the interfaces by which the port's packets leave.
std::vector<std::string> interfaces_of(const Files& files, const RdmaPort& port);
// Returns the interfaces of all active Ethernet ports, each once.
std::vector<std::string> roce_interfaces(const Files& files);

// Returns the interfaces of hardware (physical or virtual) that are not down. lo, bridges, veth and
// the like are not included.
std::vector<std::string> network_cards(const Files& files);

Result<std::uint32_t> mtu_of(const Files& files, const std::string& interface);

}  // namespace tally::control::doctor
