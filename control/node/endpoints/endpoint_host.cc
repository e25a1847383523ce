#include "control/node/endpoints/endpoint_host.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "control/coordinator/records/rails.h"
#include "net/address.h"

namespace tally::control {
namespace {

constexpr std::size_t kMostHosts = 2 * kMaxRails;  // of a session

}  // namespace

std::string host_of(const transport::fabric::Name& name) {
  sockaddr_storage socket{};
  if (name.size() != sizeof(sockaddr_in) && name.size() != sizeof(sockaddr_in6)) return {};
  std::memcpy(&socket, name.data(), name.size());
  const std::size_t bytes =
      socket.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return name.size() == bytes ? net::host_of(socket) : std::string();
}

Outcome check_endpoint(const transport::fabric::Name& name, std::string_view provider,
                       std::span<const std::string> proven) {
  if (provider == transport::fabric::kEfa) return Unit{};
  const std::string host = host_of(name);
  if (host.empty()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("an endpoint's name of {} bytes is not an IP address, as those of "
                             "provider {} are",
                             name.size(), provider)};
  }
  if (std::find(proven.begin(), proven.end(), host) != proven.end()) return Unit{};
  return Error{
      Status::kRefused,
      fmt::format("the client names an endpoint at {}, but its connections come from {}: the node "
                  "connects only to addresses that they come from (docs/deploy.md, \"Addresses\")",
                  host, fmt::join(proven, ", "))};
}

Outcome add_proven(std::vector<std::string>& proven, const std::string& host) {
  if (host.empty()) {
    return Error{Status::kInvalidArgument,
                 "session.prove: this connection is not TCP: connect from the address to prove"};
  }
  if (proven.size() >= kMostHosts) {
    return Error{Status::kInvalidArgument,
                 fmt::format("session.prove: the session has {} addresses, the limit", kMostHosts)};
  }
  if (std::find(proven.begin(), proven.end(), host) == proven.end()) proven.push_back(host);
  return Unit{};
}

}  // namespace tally::control
