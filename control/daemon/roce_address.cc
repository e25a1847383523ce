#include "control/daemon/roce_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "control/config/roce_device.h"

namespace tally::control {
namespace {

namespace roce = transport::roce;

// An address without a port, IPv4 or IPv6.
std::optional<roce::IpAddress> parse_ip(const std::string& text) {
  roce::IpAddress address{};
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), &address[12]) == 1) return address;
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

Error wrong(const char* key, const std::string& value, const char* example) {
  return invalid(
      fmt::format("network.{} is \"{}\": write an address, like {}", key, value, example));
}

Result<RoceAddress> alone(const Config& config) {
  const std::string& text = config.roce_address;
  const std::size_t slash = text.find('/');
  RoceAddress found{.text = text.substr(0, slash)};
  const auto address = parse_ip(found.text);
  constexpr const char* kExample = "\"10.9.0.2/24\"";
  if (!address || slash == std::string::npos) return wrong("roce_address", text, kExample);
  roce::LocalAddress& local = found.local;
  local.address = *address;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, local.prefix_bits);
  const unsigned most = roce::is_ipv4(*address) ? 32 : 128;
  if (error != std::errc() || stop != end || local.prefix_bits > most) {
    return wrong("roce_address", text, kExample);
  }
  if (config.roce_gateway.empty()) return found;
  local.gateway = parse_ip(config.roce_gateway);
  if (!local.gateway) return wrong("roce_gateway", config.roce_gateway, "\"10.9.0.1\"");
  return found;
}

// What only a port that has its interface alone can have.
Outcome check_beside_kernel(const Config& config, const RoceDevice& device) {
  if (device.argument("iface").empty()) {
    return invalid(fmt::format("network.roce is \"{}\": add the interface, as in \"{},iface=eth1\"",
                               config.roce, device.name()));
  }
  if (!device.argument("xdp_prog").empty()) {
    return invalid(
        fmt::format("network.roce is \"{}\": leave xdp_prog= out, because Tally has a "
                    "program of its own",
                    config.roce));
  }
  if (!config.roce_gateway.empty()) {
    return invalid(
        fmt::format("network.roce_gateway is \"{}\": leave it out, because the port is "
                    "beside the kernel, whose routes decide",
                    config.roce_gateway));
  }
  if (config.roce_vlan != 0) {
    const std::string name = device.argument("iface");
    return invalid(
        fmt::format("network.roce_vlan is {}: leave it out, because the port is beside "
                    "the kernel; name the kernel's interface of the VLAN in iface= (ip "
                    "link add link {} name {}.{} type vlan id {})",
                    config.roce_vlan, name, name, config.roce_vlan, config.roce_vlan));
  }
  return Unit{};
}

// The addresses of the interface that workers can use as GIDs, IPv4 first.
std::vector<std::string> addresses_of(const std::string& name, std::span<const Interface> all) {
  std::vector<std::string> found;
  for (const Interface& one : all) {
    const auto address = parse_ip(one.address);
    const bool is_link_local = address && (*address)[0] == 0xfe && ((*address)[1] & 0xc0) == 0x80;
    if (one.name == name && address && !is_link_local) found.push_back(one.address);
  }
  std::stable_partition(found.begin(), found.end(), [](const std::string& address) {
    return address.find(':') == address.npos;
  });
  return found;
}

Result<RoceAddress> beside_kernel(const Config& config, const RoceDevice& device,
                                  std::span<const Interface> all) {
  if (auto checked = check_beside_kernel(config, device); !checked) return checked.error();
  const std::string name = device.argument("iface");
  const std::vector<std::string> there = addresses_of(name, all);
  const std::string& wanted = config.roce_address;
  if (there.empty()) {
    return Error{Status::kUnavailable,
                 fmt::format("interface {} of network.roce is not there, or has no address of the "
                             "kernel (`ip address` lists them): give it one (ip address add "
                             "10.9.0.2/24 dev {}), or set network.roce_address with its prefix, "
                             "and the port has the interface alone",
                             name, name)};
  }
  if (wanted.empty()) {
    return RoceAddress{{.address = *parse_ip(there.front())}, there.front(), true};
  }
  const auto address = parse_ip(wanted);
  if (!address) return wrong("roce_address", wanted, "\"10.9.0.2\" or \"10.9.0.2/24\"");
  const bool is_there = std::any_of(
      there.begin(), there.end(), [&](const std::string& one) { return parse_ip(one) == address; });
  if (is_there) return RoceAddress{{.address = *address}, wanted, true};
  return Error{Status::kUnavailable,
               fmt::format("network.roce_address is \"{}\", and interface {} has {}: take one of "
                           "these, leave roce_address out, or add the prefix (\"{}/24\"), and the "
                           "port has the interface alone",
                           wanted, name, fmt::join(there, ", "), wanted)};
}

}  // namespace

Result<RoceAddress> roce_address(const Config& config, std::span<const Interface> all) {
  const RoceDevice device(config.roce);
  if (device.is_beside_kernel(config.roce_address)) return beside_kernel(config, device, all);
  return alone(config);
}

}  // namespace tally::control
