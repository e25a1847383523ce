#include "control/probe/nic.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "control/machine/files.h"
#include "net/address.h"

namespace tally::control::probe {
namespace {

constexpr double kMegabit = 1e6 / 8;

std::string interface_with(const ifaddrs* all, const std::string& host) {
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, one->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (net::host_of(address) == host) return one->ifa_name;
  }
  return {};
}

}  // namespace

Result<Nic> nic_with(const std::string& host, const std::string& root) {
  const auto addresses = net::resolve_tcp("tcp:" + host + ":1", false);
  if (!addresses) return addresses.error();
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    return Error{Status::kInternal, fmt::format("getifaddrs: {}", std::strerror(errno))};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, &::freeifaddrs);
  Nic nic;
  for (const net::SocketAddress& one : *addresses) {
    if (nic.interface.empty()) nic.interface = interface_with(found, net::host_of(one.socket));
  }
  if (nic.interface.empty()) {
    return Error{Status::kUnavailable,
                 fmt::format("no interface of this machine has the address {}", host)};
  }
  // The negotiated speed in Mbit/s. It is no number without a link, or when the NIC does not
  // negotiate.
  const Files files(root);
  const auto speed = files.number("/sys/class/net/" + nic.interface + "/speed");
  if (speed) nic.speed = static_cast<double>(*speed) * kMegabit;
  return nic;
}

}  // namespace tally::control::probe
