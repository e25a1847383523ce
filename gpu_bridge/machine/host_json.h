// The file of a GPU machine, "tally-host/1". docs/planning.md has every key.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu_bridge/machine/host.h"

namespace tally::host {

inline constexpr std::string_view kHostFormat = "tally-host/1";
inline constexpr std::size_t kMaxHostBytes = 16 << 20;

// Reads the file that the key "hwloc" names. Returns its text, or why it cannot be read.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// Parses and validates the text: the JSON file, or hwloc's XML alone (host_hwloc.h). An error names
// the place, the value and what it must be. Never throws. The notes of the machine report assumed
// speeds, and what its plans lack in a build without Clp.
Result<Host> read_host(std::string_view text, const ReadFile& read_file);

}  // namespace tally::host
