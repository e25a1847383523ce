// Speeds in the form that people write: "100Gbit", "12.5GB".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally {

// Parses a speed and returns bytes per second. The text is a number above 0, then an optional
// prefix k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (powers of 1024), then bit or B, then an
// optional "/s".
Result<double> parse_speed(std::string_view text);

// "12.5 GB/s".
std::string speed_text(double bytes_per_second);

}  // namespace tally
