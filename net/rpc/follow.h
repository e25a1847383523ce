// Finds the coordinator of a node that is a member and not the coordinator itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/rpc/rpc_channel.h"

namespace tally::rpc {

// Asks the node at `member` for its coordinator and returns a channel to it. The coordinator must
// list that node as a member; it is not asked for a further coordinator. kUnavailable: the node is
// not a member, has an older version, or names a coordinator that does not answer; the message says
// which, with the address. A node that the client reaches over a network cannot redirect the client
// to a Unix socket. Sets *elected where the node answers: whether nodes elect their coordinator.
// `handshake` as of RpcChannel::connect().
Result<RpcChannel> follow(RpcChannel& member, Nanos deadline, bool* elected = nullptr,
                          Nanos handshake = 3 * kSecond);

// Whether an answer to cluster.coordinator says that nodes elect their coordinator.
bool is_elected(const nlohmann::json& answer);

}  // namespace tally::rpc
