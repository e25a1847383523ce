// Sizes as text in binary units. Command lines and the configuration read the same forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally {

// Parses "4096", "4K", "4 MiB": digits, then spaces, then nothing, B, or one of K, M, G, T (powers
// of 1024, also in lower case), with or without iB. Refuses "4MB", because that may mean 10^6.
Result<std::uint64_t> parse_size(std::string_view text);

// Returns the shortest exact form: "4MiB", "4097".
std::string size_text(std::uint64_t bytes);
// The same for tables: "4M", "4097".
std::string short_size_text(std::uint64_t bytes);

// min, min*factor, ... up to max. The result has max itself only when the steps meet it.
// Precondition: 1 <= min <= max, factor >= 2.
std::vector<std::uint64_t> size_sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor);

}  // namespace tally
