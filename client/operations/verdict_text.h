// Texts about failed operations.
#pragma once

#include <span>
#include <string>

#include "client/operations/operation_book.h"
#include "dataplane/wire/completion.h"

namespace tally::client {

// Describes a verdict that is not kOk for a rank: "tag 17 round 5: waiting for rank 3 (last
// announced: tag 17 round 4), 3.2 s". `nodes` has the names of the job's nodes, by number.
std::string verdict_text(const wire::Completion& verdict, std::uint16_t own_rank,
                         std::span<const std::string> nodes = {});
// The same of a finished operation, of which the verdict may name no round.
std::string verdict_text(const Finished& finished, std::uint16_t own_rank,
                         std::span<const std::string> nodes);

}  // namespace tally::client
