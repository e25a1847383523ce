// Describes what a run without progress waits for, as its node reports it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tally::perf {

// Seconds without progress before a person sees what the run waits for.
inline constexpr double kSilenceS = 1.5;

// Asks the node, for at most about a second at one address. Returns "waiting for a node: nobody
// listens at /x ..." or "job "x": 1 of 2 ranks have come". Empty when the node waits for no rank.
std::string what_is_awaited(const std::string& address, const std::string& job,
                            const std::string& token);

// The same for an answer to node.jobs.
std::string what_job_awaits(const nlohmann::json& jobs, const std::string& job);

}  // namespace tally::perf
