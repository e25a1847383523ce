// The reason of a failure in words, for messages of clients and reports of nodes.
#pragma once

#include <span>
#include <string>

#include "dataplane/wire/completion.h"

namespace tally::wire {

// Returns why an operation failed: "waiting for rank 3 (last announced: tag 17 round 4), 3.2 s".
// `verdict.status` is not kOk. `nodes` has the names of the job's nodes, by number from 1. A name
// that is unknown is empty.
std::string reason_of(const Completion& verdict, std::span<const std::string> nodes);

}  // namespace tally::wire
