// The shards' transports to other machines: what the configuration asks for and the machine offers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "control/config/config.h"
#include "control/coordinator/records/rails.h"
#include "control/node/node.h"
#include "control/node/shards/transports.h"
#include "dataplane/protocol/aggregator.h"

namespace tally::control {

struct Networks {
  std::vector<NetworkTransports> transports;  // by shard
  std::optional<FabricOffer> fabric;
  std::optional<VerbsOffer> verbs;
};

// The configured rails (control/config/rails.h). The shards are dealt to the rails that this
// machine has now; the log gets a warning for each other rail. An error when the machine has none
// of them.
Result<std::vector<Rail>> open_rails(const Config& config);

// Opens the network transports of all shards. Empty when the node listens on this host only. An
// error when a required transport cannot be opened, or when none can; the log says why a transport
// is not offered.
//
// rails: the addresses that the shards' transports bind to; when empty, the transports bind to the
// address of listen_tcp. protocol: the shards' configuration. memory: the shards' tiles
// (ShardSet::share_of), which are registered with the devices; borrowed for the life of the
// transports. before: called before each shard's transports are made.
Result<Networks> open_networks(const Config& config, const std::vector<Rail>& rails,
                               const protocol::AggregatorConfig& protocol,
                               std::span<std::byte> memory, const BeforeShard& before);

}  // namespace tally::control
