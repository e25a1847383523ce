// The endpoints of a session on another machine, and the keys of its memory there: one for all
// shards, or one for each NIC of the client. The parsers validate what they read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::control {

inline constexpr std::size_t kMaxTransport = 32;
inline constexpr std::size_t kMaxEndpointName = 512;  // in hexadecimal digits

// The client's end for one shard, over transport fabric.
struct ClientEnd {
  transport::fabric::Name name;
  std::uint64_t secret = 0;
  std::uint32_t shard = 0;  // the client endpoint's number for the shard
  std::uint64_t eager_bytes = 0;
};

// Reads the parameters of session.attach: name, secret and eager_bytes, or rails, a list of these
// with their shards. The result has one element for each shard. Precondition: shards > 0.
Result<std::vector<ClientEnd>> parse_ends(const nlohmann::json& params, std::size_t shards);

// Reads the parameters of region.register: keys, or key for all shards. The result has one key for
// each shard.
Result<std::vector<std::uint64_t>> parse_keys(const nlohmann::json& params, std::uint64_t key,
                                              std::size_t shards);

}  // namespace tally::control
