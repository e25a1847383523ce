// Writes what a command prints. A full disk under stdout is an error like that of another file. A
// pipe whose reader has ended is none, because the reader wanted no more.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tally::control {

// Writes the text to stdout and flushes it. An error names stdout and the reason.
Outcome write_stdout(std::string_view text);

// Does the same. Where that has an error, it returns false, and prints the error on stderr.
// program: the tool's name, such as "tallyctl".
bool print_out(std::string_view text, std::string_view program);

// Whether stdout is a pipe whose reader has ended. A command that prints repeatedly then stops.
bool is_unread();

}  // namespace tally::control
