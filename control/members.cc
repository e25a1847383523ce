#include "control/members.h"

#include <utility>

#include "client/follow.h"

namespace tally::control {
namespace {

using client::RpcChannel;
using nlohmann::json;

Result<json> ask(RpcChannel& node, Nanos patience) {
  auto said = node.call("cluster.nodes", json::object(), {}, monotonic_now() + patience);
  if (said && !said->is_array()) return json::array();
  return said;
}

}  // namespace

Result<json> ask_members(RpcChannel& node, Nanos patience) {
  auto own = ask(node, patience);
  if (!own || !own->empty()) return own;
  auto coordinator = client::follow(node, monotonic_now() + patience);
  if (!coordinator) return own;
  auto members = ask(*coordinator, patience);
  if (!members) return own;
  node = std::move(coordinator).value();
  return members;
}

}  // namespace tally::control
