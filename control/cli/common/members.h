// The members of a node's cluster, for commands that examine all of its nodes.
#pragma once

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

// The list of cluster.nodes. It is from the node, or, when the node has no members of its own, from
// the coordinator that it names (rpc::follow()); `node` is then the channel to the coordinator.
// The list is empty when the node is in no cluster or its coordinator does not answer. An error
// comes from the node: kUnsupported when its version knows no clusters. Blocks; timeout is the
// time limit for each of the two.
Result<nlohmann::json> ask_members(rpc::RpcChannel& node, Nanos timeout);

}  // namespace tally::control
