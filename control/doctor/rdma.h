// RDMA devices as the kernel shows them, and the network interfaces they go with.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "control/doctor/files.h"

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
// Those with a link. Cards have ports that nobody has put a cable into: of them there is no more to
// say than that.
std::vector<RdmaPort> active_ports(const Files& files);
// "ACTIVE" of "4: ACTIVE", as the kernel writes states.
std::string state_name(const std::string& text);

enum class GidKind : std::uint8_t { kIpv4, kIpv6, kLinkLocal };

// An entry of a port's table: an address of the port for other machines.
struct Gid {
  std::uint32_t index = 0;
  GidKind kind = GidKind::kLinkLocal;
  std::string address;  // 10.0.0.1, fd00::1
  bool is_roce_v2 = false;
  std::string interface;  // empty: unknown, or InfiniBand
};

// The entries that are in use.
std::vector<Gid> gids_of(const Files& files, const RdmaPort& port);

// The one that others can reach: of RoCE version 2, IPv4 before routable IPv6, then the lowest
// index. Null: there is none.
const Gid* preferred_gid(const std::vector<Gid>& gids);

// The interfaces that the port's packets leave by.
std::vector<std::string> interfaces_of(const Files& files, const RdmaPort& port);
// Of all active ports that are Ethernet, each once.
std::vector<std::string> roce_interfaces(const Files& files);

// Interfaces of hardware (or of a virtual machine's) that are up: not lo, bridges, veth and such.
std::vector<std::string> network_cards(const Files& files);

// The MTU of an interface.
Result<std::uint32_t> mtu_of(const Files& files, const std::string& interface);

}  // namespace tally::control::doctor
