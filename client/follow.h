// From a node that is no coordinator to the one whose member it is.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "client/rpc_channel.h"

namespace tally::client {

// A channel to the coordinator that the node at the other end of `member` names: one that knows
// that node as its member, and that is asked no further. kUnavailable: it is a member nowhere, of
// an older version, or names one that is not there; the message says which and where.
// A member that is reached over a network cannot send its client to a Unix socket of the client's.
Result<RpcChannel> follow(RpcChannel& member, Nanos deadline);

}  // namespace tally::client
