// The ranks that a version of the job's plan leaves out, because they were lost and the job goes on
// without them (docs/decisions/0037). Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/partition/collective.h"

namespace tally::client {

// Completions share it, because a rank may take them after the version has ended.
struct LeftOut {
  std::vector<std::uint16_t> ranks;  // ascending
  std::string text;                  // "without ranks 1, 4 and 12 more"
};

// Returns null when there are no ranks.
std::shared_ptr<const LeftOut> make_left_out(const std::vector<std::uint16_t>& ranks);

// Returns the first of these ranks that the operation needs: its root, or a rank that owns elements
// of a reduce-scatter or an all-gather. None: the operation is done among the other ranks.
std::optional<std::uint16_t> needed_rank(const LeftOut& left_out, const protocol::Shape& shape);

}  // namespace tally::client
