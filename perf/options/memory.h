// Checks before a run that the machine has enough memory.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "perf/options/options.h"

namespace tally::perf {

// Checks the memory for the buffers of `workers` on this machine, and the same amount again for a
// ceiling.
Outcome check_memory(const Options& options, const std::vector<Row>& rows, std::uint64_t workers);

}  // namespace tally::perf
