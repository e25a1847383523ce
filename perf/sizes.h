// Sizes as people write them: "4K", "25M", binary units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::perf {

// Digits, then nothing or one of K, M, G, T (powers of 1024), then nothing, "B" or "iB".
Result<std::uint64_t> parse_bytes(std::string_view text);

// "4K", "25M", "100000": the shortest exact form.
std::string format_bytes(std::uint64_t bytes);

// min, min*factor, ... up to and including max (max itself only when the steps meet it).
// Precondition: 1 <= min <= max, factor >= 2.
std::vector<std::uint64_t> size_sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor);

}  // namespace tally::perf
