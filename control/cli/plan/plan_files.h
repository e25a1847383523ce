// Reads and writes files that a command line names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/system/output_file.h"

namespace tally::control {

// Reads a file, up to one byte more than the largest plan; the plan's parser reports that size.
// kind says in the error message what to give instead: "a plan file".
Result<std::string> read_file(const std::string& path, std::string_view kind);

// Create and write the file of --out, which errors name.
Result<OutputFile> create_out(const std::string& path);
Outcome write_out(const std::string& path, std::string_view text);

}  // namespace tally::control
