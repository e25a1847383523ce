// Speeds as people write them: "100Gbit", "12.5GB".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::control {

// Bytes per second: a number above 0, then bit or B, before it nothing or one of k, M, G, T (powers
// of 1000) or Ki, Mi, Gi, Ti (of 1024), behind it nothing or "/s".
Result<double> parse_speed(std::string_view text);

// "12.5 GB/s".
std::string speed_text(double bytes_per_second);

}  // namespace tally::control
