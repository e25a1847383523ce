// Files of a command line about plans.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::control {

// At most one byte more than a plan may have: who reads it says so. `kind`: what to give instead,
// for the message, "a plan file".
Result<std::string> read_file(const std::string& path, std::string_view kind);
Outcome write_file(const std::string& path, const std::string& text);

}  // namespace tally::control
