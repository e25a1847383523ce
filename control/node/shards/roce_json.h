// The counters of a shard's transport roce, as node.stats has them (docs/metrics.md#roce).
#pragma once

#include <nlohmann/json.hpp>

#include "dataplane/transport/roce/roce_transport.h"

namespace tally::control {

// The transport's thread alone.
nlohmann::json roce_json(const transport::roce::RoceTransport& transport);

}  // namespace tally::control
