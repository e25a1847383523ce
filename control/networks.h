// The shards' ways to other machines, as the configuration wants them and the machine has them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/config.h"
#include "control/coordinator/rails.h"
#include "control/node.h"
#include "control/ports.h"
#include "dataplane/protocol/aggregator.h"

namespace tally::control {

struct Networks {
  std::vector<NetworkPorts> ports;  // by shard
  std::optional<FabricOffer> fabric;
  std::optional<VerbsOffer> verbs;
};

// The configured rails (control/rails.h), with the shards dealt to those that this machine has now;
// a warning in the log for each of the others. An error where it has none.
Result<std::vector<Rail>> open_rails(const Config& config);

// Nothing where the node listens on this host alone. An error when a transport that has to be there
// is not, or none is; the log says why one is not offered. `rails`: what shards' ports are bound
// to; none: the address of listen_tcp. `protocol`: of the shards. `memory`: of the shards' tiles
// (ShardSet::share_of), registered with the devices; borrowed for the ports' life. `before`: called
// before a shard's ports are made.
Result<Networks> open_networks(const Config& config, const std::vector<Rail>& rails,
                               const protocol::AggregatorConfig& protocol,
                               std::span<std::byte> memory, const BeforeShard& before);

}  // namespace tally::control
