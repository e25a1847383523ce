#include "control/config/roce_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "control/config/roce_device.h"
#include "dataplane/transport/roce/port/address_frames.h"

namespace tally::control {
namespace {

namespace roce = transport::roce;
namespace frames = roce::address_frames;

// An address without a port, IPv4 or IPv6.
std::optional<roce::IpAddress> parse_ip(const std::string& text) {
  roce::IpAddress address{};
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), &address[12]) == 1) return address;
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

Error wrong(const char* key, const std::string& value, const char* reason, const char* remedy) {
  return invalid(fmt::format("network.{} is \"{}\", {}: {}", key, value, reason, remedy));
}

Result<roce::LocalAddress> with_prefix(const std::string& text) {
  const auto bad = [&](const char* reason) {
    return wrong(
        "roce_address", text, reason,
        "write an IP address that only this port has, with its prefix, as \"10.9.0.2/24\"");
  };
  const std::size_t slash = text.find('/');
  const auto address = parse_ip(text.substr(0, slash));
  if (!address || !frames::is_unicast(*address)) return bad("which is no IP address of one host");
  if (slash == std::string::npos) return bad("without a prefix");
  roce::LocalAddress local{.address = *address};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, local.prefix_bits);
  const unsigned most = roce::is_ipv4(*address) ? 32 : 128;
  if (error != std::errc() || stop != end || local.prefix_bits > most) {
    return bad("with a prefix that no such address has");
  }
  return local;
}

// The port's own resolver asks a gateway for its MAC address, so it must be on the link.
bool is_on_link(const roce::IpAddress& gateway, const roce::LocalAddress& local) {
  const bool v4 = roce::is_ipv4(local.address);
  const unsigned bits = local.prefix_bits + (v4 ? frames::kIpv4PrefixBits : 0);
  return frames::is_unicast(gateway) && roce::is_ipv4(gateway) == v4 &&
         frames::has_prefix(gateway, local.address, bits);
}

Result<RoceAddress> of_its_own(const Config& config) {
  const std::string& text = config.roce_address;
  const auto local = with_prefix(text);
  if (!local) return local.error();
  RoceAddress found{.local = *local, .text = text.substr(0, text.find('/'))};
  if (config.roce_gateway.empty()) return found;
  found.local.gateway = parse_ip(config.roce_gateway);
  if (!found.local.gateway || !is_on_link(*found.local.gateway, found.local)) {
    return wrong("roce_gateway", config.roce_gateway,
                 "which is no IP address within the prefix of network.roce_address",
                 "write the address of the gateway on the port's link, or leave it out");
  }
  return found;
}

// What only a port with an address of its own can have.
Outcome check_beside_kernel(const Config& config, const RoceDevice& device) {
  if (!device.argument("xdp_prog").empty()) {
    return wrong("roce", config.roce, "and Tally has an XDP program of its own",
                 "leave xdp_prog= out");
  }
  if (!config.roce_gateway.empty()) {
    return wrong("roce_gateway", config.roce_gateway,
                 "and the port is beside the kernel, whose routes decide", "leave it out");
  }
  if (config.roce_vlan != 0) {
    const std::string name = device.argument("iface");
    return invalid(
        fmt::format("network.roce_vlan is {}, and the port is beside the kernel: leave it out, and "
                    "name the kernel's interface of the VLAN in iface= (ip link add link {} name "
                    "{}.{} type vlan id {})",
                    config.roce_vlan, name, name, config.roce_vlan, config.roce_vlan));
  }
  return Unit{};
}

Error not_of_kernel(const std::string& wanted, const std::string& interface,
                    const std::vector<std::string>& there) {
  const int bits = wanted.find(':') == wanted.npos ? 24 : 64;
  return {
      Status::kUnavailable,
      fmt::format("network.roce_address is \"{}\", and the kernel has {} on interface {}: write "
                  "one of these, or leave roce_address out; or, for an address that only the "
                  "port has, add the prefix (\"{}/{}\")",
                  wanted, fmt::join(there, ", "), interface, wanted, bits)};
}

Result<RoceAddress> beside_kernel(const Config& config, const RoceDevice& device,
                                  std::span<const Interface> all) {
  if (auto checked = check_beside_kernel(config, device); !checked) return checked.error();
  const std::string name = device.argument("iface");
  const std::vector<std::string> there = kernel_addresses(name, all);
  const std::string& wanted = config.roce_address;
  if (there.empty()) {
    return Error{
        Status::kUnavailable,
        fmt::format("interface {} of network.roce is not there, or has no address of the kernel "
                    "(`ip address` lists them): give it one (ip address add 10.9.0.2/24 dev {}); "
                    "or write an address with its prefix in network.roce_address, and only the "
                    "port has it",
                    name, name)};
  }
  if (wanted.empty()) {
    return RoceAddress{{.address = *parse_ip(there.front())}, there.front(), true};
  }
  const auto address = parse_ip(wanted);
  if (!address) {
    return wrong("roce_address", wanted, "which is no IP address",
                 "write one of the kernel's addresses of the interface, as \"10.9.0.2\"; or an "
                 "address that only this port has, with its prefix, as \"10.9.0.9/24\"");
  }
  const bool is_there = std::any_of(
      there.begin(), there.end(), [&](const std::string& one) { return parse_ip(one) == address; });
  if (!is_there) return not_of_kernel(wanted, name, there);
  return RoceAddress{{.address = *address}, wanted, true};
}

}  // namespace

std::vector<std::string> kernel_addresses(std::string_view interface,
                                          std::span<const Interface> all) {
  std::vector<std::string> found;
  for (const Interface& one : all) {
    const auto address = parse_ip(one.address);
    // An address with a label is listed under it ("eth1:1"). No interface has a colon in its name.
    const std::string_view name = std::string_view(one.name).substr(0, one.name.find(':'));
    if (name == interface && address && !frames::is_link_local(*address)) {
      found.push_back(one.address);
    }
  }
  std::stable_partition(found.begin(), found.end(), [](const std::string& address) {
    return address.find(':') == address.npos;
  });
  return found;
}

Result<RoceAddress> roce_address(const Config& config, std::span<const Interface> all) {
  const RoceDevice device(config.roce);
  if (device.is_xdp() && device.argument("iface").empty()) {
    return invalid(fmt::format("network.roce is \"{}\": add the interface, as in \"{},iface=eth1\"",
                               config.roce, device.name()));
  }
  if (device.is_beside_kernel(config.roce_address)) return beside_kernel(config, device, all);
  return of_its_own(config);
}

}  // namespace tally::control
