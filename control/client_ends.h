// Where a session on another machine has its ends, and by which keys its memory is known there: one
// for all lanes, or one for each of the client's NICs. Parsing is validating.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::control {

inline constexpr std::size_t kMaxTransport = 32;
inline constexpr std::size_t kMaxEndpointName = 512;  // in hexadecimal digits

// Of a lane, over transport fabric.
struct ClientEnd {
  transport::fabric::Name name;
  std::uint64_t secret = 0;
  std::uint32_t shard = 0;  // what its endpoint calls the lane
  std::uint64_t eager_bytes = 0;
};

// By lane, of session.attach: `name`, `secret` and `eager_bytes`, or `rails`, a list of these with
// their `lanes`. Precondition: there are lanes.
Result<std::vector<ClientEnd>> parse_ends(const nlohmann::json& params, std::size_t lanes);

// By lane, of region.register: `keys`, or `key` for all.
Result<std::vector<std::uint64_t>> parse_keys(const nlohmann::json& params, std::uint64_t key,
                                              std::size_t lanes);

}  // namespace tally::control
