// The file of --network: a network that the user describes, for predictions.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/model/network.h"

namespace tally::perf {

// What the file describes.
struct NetworkFile {
  // By name of a node or of a host. These speeds have precedence over all others.
  plan::MachineFile speeds;
  // Of a plan's file, of a file of a network, or of machines with racks. It has precedence over the
  // network of the plan in force. It has passed plan::validate().
  std::optional<plan::Network> network;
};

// Reads the file of --network: a file of machines, a file of a network, or a plan. Empty when
// `path` is empty. The error has the flag and the path.
Result<NetworkFile> read_network(const std::string& path);

}  // namespace tally::perf
