// The shards' ways to other machines, as the configuration wants them and the machine has them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/config.h"
#include "control/node.h"
#include "control/ports.h"
#include "dataplane/protocol/aggregator.h"

namespace tally::control {

struct Networks {
  std::vector<NetworkPorts> ports;  // by shard
  std::optional<FabricOffer> fabric;
  std::optional<VerbsOffer> verbs;
};

// Nothing where the node listens on this host alone. An error when a transport that has to be there
// is not, or none is; the log says why one is not offered. `protocol`: of the shards. `memory`: of
// the shards' tiles (ShardSet::share_of), registered with the devices; borrowed for the ports'
// life.
Result<Networks> open_networks(const Config& config, const protocol::AggregatorConfig& protocol,
                               std::span<std::byte> memory);

}  // namespace tally::control
