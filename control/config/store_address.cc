#include "control/config/store_address.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/config/config.h"
#include "net/tcp.h"

namespace tally::control {
namespace {

constexpr std::string_view kScheme = "etcd:";
constexpr std::string_view kSafe = "https://";
constexpr std::string_view kPlain = "http://";

bool is_of_this_host(std::string_view host) {
  const auto is_digit_or_dot = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  const bool loopback =
      host.starts_with("127.") && std::all_of(host.begin(), host.end(), is_digit_or_dot);
  return loopback || host == "localhost" || host == "[::1]" || host == "::1";
}

// A host and a port, and nothing that a URL could have besides. Errors do not show the text: it may
// have a password.
Result<std::string> parse_endpoint(std::string text) {
  if (text.ends_with('/')) text.pop_back();
  const bool safe = text.starts_with(kSafe);
  if (!safe && !text.starts_with(kPlain)) return invalid("write https://host:port");
  const std::string there = text.substr(safe ? kSafe.size() : kPlain.size());
  const bool plain = there.find_first_of("/?#@\\%") == there.npos;
  if (!plain) {
    return invalid(
        "it has more than a host and a port: write https://host:port, and the user and the "
        "password in cluster.store_user and cluster.store_password_file");
  }
  const auto address = net::parse_host_port("address", "tcp:" + there);
  if (!address) return invalid("it has no port from 1 to 65535: write https://host:port");
  if (safe || is_of_this_host(address->host)) return text;
  return invalid(
      "http:// is for addresses of this host, because passwords and keys of jobs travel there: "
      "write https://");
}

}  // namespace

Result<std::vector<std::string>> parse_store(std::string_view store) {
  if (!store.starts_with(kScheme)) {
    return invalid("write etcd:https://host:2379, with commas between several");
  }
  std::vector<std::string> endpoints;
  for (std::string& text : between_commas(std::string(store.substr(kScheme.size())))) {
    auto endpoint = parse_endpoint(std::move(text));
    if (!endpoint) {
      return invalid(fmt::format("address {}: {}", endpoints.size() + 1, endpoint.error().message));
    }
    endpoints.push_back(std::move(endpoint).value());
  }
  if (endpoints.empty()) return invalid("it has no address behind etcd:");
  return endpoints;
}

}  // namespace tally::control
