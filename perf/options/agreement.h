// Compares the options of two hosts of a run, and makes text of another host safe to print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/options/options.h"

namespace tally::perf {

// `arguments` is the command line of a host that joins a run with the options `served`. Options
// that it does not name are as served. Returns a message about the first named option that differs,
// with both values; none when the hosts agree.
std::optional<std::string> disagreement(const Options& served,
                                        const std::vector<std::string>& arguments);

// Makes text of another host printable on a terminal: one line of limited length.
std::string printable(std::string text);

}  // namespace tally::perf
