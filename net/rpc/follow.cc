#include "net/rpc/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "net/address.h"

namespace tally::rpc {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxText = 256;  // of an address or a name

// Returns the text that the node sent; empty when it sent none that is valid.
std::string text_of(const json& answer, const char* key) {
  if (!answer.is_object()) return {};
  const auto found = answer.find(key);
  if (found == answer.end() || !found->is_string()) return {};
  const auto text = found->get<std::string>();
  return text.size() <= kMaxText ? text : std::string();
}

bool has_member(const json& nodes, const std::string& name) {
  return nodes.is_array() && std::any_of(nodes.begin(), nodes.end(), [&](const json& node) {
           return text_of(node, "name") == name;
         });
}

}  // namespace

bool is_elected(const json& answer) {
  return answer.is_object() && answer.value("elected", json()) == true;
}

Result<RpcChannel> follow(RpcChannel& member, Nanos deadline, bool* elected, Nanos handshake) {
  const auto unavailable = [&](const std::string& why) {
    return Error{Status::kUnavailable,
                 fmt::format("the node at {} is no coordinator, and {}", member.address(), why)};
  };
  const auto answer = member.call("cluster.coordinator", json::object(), {}, deadline);
  if (!answer) return unavailable("names none: " + answer.error().message);
  if (elected != nullptr) *elected = is_elected(*answer);
  const std::string address = text_of(*answer, "coordinator");
  const std::string name = text_of(*answer, "name");
  if (address.empty() || name.empty()) return unavailable("is not a member at one");
  const bool remote = member.address().starts_with(net::kTcpScheme);
  if (address == member.address() || (remote && !address.starts_with(net::kTcpScheme))) {
    return unavailable(fmt::format("names {}, where a client cannot go", address));
  }
  auto channel = RpcChannel::connect(address, 0, member.credentials(), handshake);
  if (!channel) return unavailable(fmt::format("its coordinator: {}", channel.error().message));
  const auto nodes = channel->call("cluster.nodes", json::object(), {}, deadline);
  if (!nodes) return unavailable(fmt::format("its coordinator: {}", nodes.error().message));
  if (has_member(*nodes, name)) return channel;
  return unavailable(fmt::format("its coordinator, {}, has no member \"{}\"", address, name));
}

}  // namespace tally::rpc
