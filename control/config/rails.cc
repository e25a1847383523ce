#include "control/config/rails.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "base/text/speed.h"
#include "net/address.h"

namespace tally::control {
namespace {

// The address in the form in which the kernel writes it. Empty: the text is no address, or no
// address of a single machine.
std::string canonical(const std::string& text) {
  sockaddr_storage socket{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&socket);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&socket);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    socket.ss_family = AF_INET;
    if (v4->sin_addr.s_addr == INADDR_ANY) return {};
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    socket.ss_family = AF_INET6;
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) return {};
  }
  return net::host_of(socket);
}

int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(mask);
  const bool v6 = mask->sa_family == AF_INET6;
  bytes += v6 ? offsetof(sockaddr_in6, sin6_addr) : offsetof(sockaddr_in, sin_addr);
  int bits = 0;
  for (int i = 0; i < (v6 ? 16 : 4); ++i) bits += std::popcount(bytes[i]);
  return bits;
}

Outcome set_speeds(const Config& config, std::vector<Rail>& rails) {
  const auto speeds = between_commas(config.rail_speeds);
  if (speeds.empty()) return Unit{};
  if (speeds.size() != rails.size()) {
    return invalid(
        fmt::format("network.speeds = \"{}\" has {} speeds and network.rails {} addresses: "
                    "give one for each, in the same order, or leave it out",
                    config.rail_speeds, speeds.size(), rails.size()));
  }
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const auto speed = parse_speed(speeds[i]);
    if (!speed || *speed > 1e15) {
      return invalid(
          fmt::format("network.speeds = \"{}\": \"{}\" is not a speed like 100Gbit or "
                      "12.5GB",
                      config.rail_speeds, speeds[i]));
    }
    rails[i].speed = static_cast<std::uint64_t>(*speed);
  }
  return Unit{};
}

// Each rail needs a shard, and each job needs one shard of each rail.
Outcome check_shards(const Config& config, std::size_t rails) {
  for (const auto& [key, shards] : {std::pair{"shards.count", config.shards},
                                    {"shards.per_job", config.limits.shards_per_job}}) {
    if (shards >= rails) continue;
    return invalid(
        fmt::format("{} is {} and network.rails has {} addresses: each NIC needs a shard; "
                    "raise it, or name fewer NICs",
                    key, shards, rails));
  }
  return Unit{};
}

}  // namespace

Result<std::vector<Rail>> configured_rails(const Config& config) {
  std::vector<Rail> rails;
  for (const std::string& text : between_commas(config.rails)) {
    Rail rail{.address = canonical(text)};
    const bool twice = std::any_of(rails.begin(), rails.end(), [&](const Rail& other) {
      return other.address == rail.address;
    });
    if (rail.address.empty() || twice || rails.size() == kMaxRails) {
      return invalid(
          fmt::format("network.rails = \"{}\": \"{}\" {}: give at most {} addresses like "
                      "10.0.0.1 or fd00::1, one of each NIC, with commas between them",
                      config.rails, text,
                      twice                  ? "stands there twice"
                      : rail.address.empty() ? "is not an address of one NIC"
                                             : "is one too many",
                      kMaxRails));
    }
    rails.push_back(std::move(rail));
  }
  if (auto set = set_speeds(config, rails); !set) return set.error();
  if (rails.empty()) return rails;
  if (config.listen_tcp.empty()) {
    return invalid(
        fmt::format("network.rails = \"{}\", and listen_tcp is empty: workers on other "
                    "machines connect there first; tcp:*:7733 for any NIC",
                    config.rails));
  }
  if (auto enough = check_shards(config, rails.size()); !enough) return enough.error();
  deal_shards(rails, config.shards);
  return rails;
}

std::vector<Interface> interfaces() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    const int family = one->ifa_addr != nullptr ? one->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage socket{};
    std::memcpy(&socket, one->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    // IFF_RUNNING: there is a carrier, and the interface may be used.
    const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0;
    all.push_back({one->ifa_name, net::host_of(socket), up, prefix_of(one->ifa_netmask)});
  }
  return all;
}

std::string address_bits(const std::string& address) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::size_t count = 0;
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) count = sizeof(in_addr);
  if (count == 0 && ::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) {
    count = sizeof(in6_addr);
  }
  std::string bits;
  for (std::size_t i = 0; i < 8 * count; ++i) {
    bits += (bytes[i / 8] >> (7 - i % 8) & 1) != 0 ? '1' : '0';
  }
  return bits;
}

const Interface* interface_of(std::span<const Interface> all, std::string_view address) {
  const auto found = std::find_if(
      all.begin(), all.end(), [address](const Interface& one) { return one.address == address; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> nics_of_shards(const Config& config, const std::vector<Rail>& rails,
                                        std::span<const Interface> all) {
  std::string one;
  if (rails.empty() && !config.listen_tcp.empty()) {
    const auto listening = net::resolve_tcp(config.listen_tcp, true);
    if (listening) one = net::host_of(listening->front().socket);
  }
  std::vector<std::string> nics(config.shards);
  for (std::uint32_t i = 0; i < nics.size(); ++i) {
    const Interface* interface =
        interface_of(all, rails.empty() ? one : rails[rail_of(i, rails)].address);
    if (interface != nullptr) nics[i] = interface->name;
  }
  return nics;
}

std::vector<std::uint32_t> refresh(std::vector<Rail>& rails, std::span<const Interface> all) {
  std::vector<std::uint32_t> changed;
  for (std::uint32_t i = 0; i < rails.size(); ++i) {
    const Interface* interface = interface_of(all, rails[i].address);
    const bool up = rails[i].shards > 0 && interface != nullptr && interface->up;
    if (up != rails[i].up) changed.push_back(i);
    rails[i].up = up;
  }
  return changed;
}

}  // namespace tally::control
