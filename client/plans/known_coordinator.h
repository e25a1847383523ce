// What a rank knows of its coordinator when it has entered its job.
#pragma once

#include <cstdint>
#include <optional>

#include "base/timeouts/fault_timeouts.h"
#include "net/rpc/rpc_channel.h"
#include "net/rpc/terms.h"

namespace tally::client {

struct KnownCoordinator {
  // The channel on which the job was opened; none when the nodes have no coordinator. A coordinator
  // of an older release refuses the first request for news and announces no changes.
  std::optional<rpc::RpcChannel> channel{};
  bool repairs = false;     // it repairs jobs that have lost a node
  rpc::HighestTerm term{};  // of the coordinators that have answered the rank
  std::uint32_t epoch = 0;  // of the version that the rank has entered
  FaultTimeouts timeouts{};
};

}  // namespace tally::client
