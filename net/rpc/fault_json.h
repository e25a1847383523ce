// How long a fault may last, in the answers of a coordinator to its nodes and ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"

namespace tally::rpc {

// Adds it to an answer.
void put_fault(nlohmann::json& answer, Nanos fault);

// What the answer has, within the limits of FaultTimeouts. Coordinators of older versions send
// none, and have the default of FaultTimeouts.
Nanos fault_of(const nlohmann::json& answer);

}  // namespace tally::rpc
