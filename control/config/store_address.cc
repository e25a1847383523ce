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

// A host and a port, and nothing that a URL could have besides.
Result<std::string> parse_endpoint(std::string text) {
  if (text.ends_with('/')) text.pop_back();
  const bool safe = text.starts_with(kSafe);
  if (!safe && !text.starts_with(kPlain)) {
    return invalid(fmt::format("\"{}\": write https://host:port", text));
  }
  const std::string there = text.substr(safe ? kSafe.size() : kPlain.size());
  const bool plain = there.find_first_of("/?#@\\%") == there.npos;
  const auto address = plain ? net::parse_host_port("address", "tcp:" + there)
                             : Result<net::HostPort>(invalid("it has more than a host and a port"));
  if (!address) {
    return invalid(
        fmt::format("\"{}\": {}: write https://host:port", text, address.error().message));
  }
  if (safe || is_of_this_host(address->host)) return text;
  return invalid(
      fmt::format("\"{}\": http:// is for addresses of this host, because passwords and keys of "
                  "jobs travel there: write https://",
                  text));
}

}  // namespace

Result<std::vector<std::string>> parse_store(std::string_view store) {
  if (!store.starts_with(kScheme)) {
    return invalid("write etcd:https://host:2379, with commas between several");
  }
  std::vector<std::string> endpoints;
  for (std::string& text : between_commas(std::string(store.substr(kScheme.size())))) {
    auto endpoint = parse_endpoint(std::move(text));
    if (!endpoint) return endpoint.error();
    endpoints.push_back(std::move(endpoint).value());
  }
  if (endpoints.empty()) return invalid("it has no address behind etcd:");
  return endpoints;
}

}  // namespace tally::control
