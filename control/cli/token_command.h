// tallyctl token: makes the cluster's secret and tokens, and revokes tokens (docs/security.md).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

enum class TokenVerb : std::uint8_t { kSecret, kMake, kShow, kRevoke };

struct TokenArguments {
  TokenVerb verb = TokenVerb::kSecret;
  std::string file;         // of the secret: to write, or to read
  std::string job;          // a job's name, or the begin of names and `*`
  std::string expires;      // "12h", "30d"; empty: never
  std::string token_or_id;  // of a token
};

// Adds the subcommand. The parser writes the given values to `arguments`.
CLI::App* add_token(CLI::App& app, TokenArguments& arguments);

// Makes or shows; needs no node. Returns the exit status: 0; 1 when a file cannot be read or
// written; 2 for wrong usage.
int run_token(const TokenArguments& arguments);

// Revokes a token at the node and at all members of its cluster. Returns the exit status: 0; 1 when
// a node has not revoked it (stderr says which).
int revoke_token(rpc::RpcChannel& channel, const TokenArguments& arguments, Nanos timeout);

}  // namespace tally::control
