// Do two hosts of a run mean the same? And how words of another host are shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/options.h"

namespace tally::perf {

// `words`: the command line of a host that joins a run with the options `served`. What it does not
// name is as served; the first of what it names and means differently is told with both values.
std::optional<std::string> disagreement(const Options& served,
                                        const std::vector<std::string>& words);

// Text of another host as it can be shown on a terminal: one line, not too long.
std::string printable(std::string text);

}  // namespace tally::perf
