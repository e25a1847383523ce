// The words for what happened: who, what, where they are.
#pragma once

#include <span>
#include <string>

#include "dataplane/wire/completion.h"

namespace tally::client {

// Of a verdict that is not kOk, as a rank is told: "tag 17 round 5: waiting for rank 3 (last
// announced: tag 17 round 4), 3.2 s". `nodes`: the names of the job's, by number.
std::string describe(const wire::Completion& verdict, std::uint16_t own_rank,
                     std::span<const std::string> nodes = {});

}  // namespace tally::client
