// Writes what a command prints. A full disk under stdout is an error like that of another file.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tally::control {

// Writes the text to stdout and flushes it. An error names stdout and the reason. The end of a
// pipe's reader is no error, because it wants no more.
Outcome write_stdout(std::string_view text);

// Does the same. When it fails, it returns false, and says why on stderr. program: the tool's name,
// such as "tallyctl". It prints no error for a closed pipe.
bool print_out(std::string_view text, std::string_view program);

}  // namespace tally::control
