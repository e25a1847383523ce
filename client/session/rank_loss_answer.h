// What the coordinator says about the ranks that a job goes on without, and what a rank asks for.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/session/session_options.h"

namespace tally::client {

struct RankLossAnswer {
  std::vector<std::uint16_t> left_out;  // ascending; ranks without a place in the version
  // By tag: the first round in which a rank takes part that returns to the job. Other tags begin at
  // round 0.
  std::map<std::uint32_t, std::uint32_t> first;
};

// Adds the policy that the rank asks for to the parameters of job.open.
void ask_for_policy(const SessionOptions& options, nlohmann::json& params);

// Reads the answer to job.open, or the description of a version. kUnsupported: the rank asks for
// kFinish, and the job does not have this policy. kProtocol: the answer cannot be right.
Result<RankLossAnswer> read_rank_loss(const SessionOptions& options, const nlohmann::json& answer);

// The error of job.open. A coordinator of an older release refuses the unknown policy.
Error refusal_of(const SessionOptions& options, const Error& error);

// Returns the ranks that the version leaves out. None: the answer cannot be right, because they are
// not ascending ranks of the job other than `rank`.
std::optional<std::vector<std::uint16_t>> read_left_out(const nlohmann::json& answer,
                                                        std::uint16_t rank, std::uint16_t ranks);

}  // namespace tally::client
