#include "control/cli/common/members.h"

#include <utility>

#include "net/rpc/follow.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::RpcChannel;

Result<json> ask(RpcChannel& node, Nanos timeout) {
  auto answer = node.query("cluster.nodes", json::object(), monotonic_now() + timeout);
  if (answer && !answer->is_array()) return json::array();
  return answer;
}

}  // namespace

Result<json> ask_members(RpcChannel& node, Nanos timeout) {
  auto own = ask(node, timeout);
  if (!own || !own->empty()) return own;
  auto coordinator = rpc::follow(node, monotonic_now() + timeout);
  if (!coordinator) return own;
  auto members = ask(*coordinator, timeout);
  if (!members) return own;
  node = std::move(coordinator).value();
  return members;
}

}  // namespace tally::control
