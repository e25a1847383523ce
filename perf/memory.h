// Is there memory for what is to be measured?
#pragma once

#include <cstdint>

#include "base/result.h"
#include "perf/options.h"

namespace tally::perf {

// For the buffers of `workers` on this machine, and as much again for a ceiling's.
Outcome check_memory(const Options& options, const std::vector<Row>& rows, std::uint64_t workers);

}  // namespace tally::perf
