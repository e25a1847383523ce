// Who is in a node's cluster: for the commands that look at all of its nodes.
#pragma once

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "client/rpc_channel.h"

namespace tally::control {

// The list of cluster.nodes, asked of the node and, where it has no members of its own, of the
// coordinator that it names (client::follow()); `node` is then the channel to that one. Empty: it
// stands alone, or its coordinator is not there. An error is the node's: kUnsupported where it is
// too old to know of clusters. Blocks; `patience`: for each of them.
Result<nlohmann::json> ask_members(client::RpcChannel& node, Nanos patience);

}  // namespace tally::control
