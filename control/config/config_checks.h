// Checks of a configuration that need more than one value: values that do not fit each other.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "control/config/config.h"

namespace tally::control {

inline constexpr std::size_t kMaxName = 128;  // of a job, a token or a node

// The location of each given key ("tally.toml:3:9", "--shards"). The map's key is the path
// ("shards.count"), or job_text() for a job.
using Places = std::map<std::string, std::string, std::less<>>;

// An error begins with the location of the first key that it names and that has one.
Outcome check_config(const Config& config, const Places& places);

// "job \"bert\"".
std::string job_text(const ConfiguredJob& job);

}  // namespace tally::control
