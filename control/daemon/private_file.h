// Files with a secret in their first line.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::control {

// The first line of the file, which only its owner and its group may read. `key` of the
// configuration names the file. `remedy`: what to do when the file is empty.
Result<std::string> read_private_line(std::string_view key, const std::string& path,
                                      std::string_view remedy);

// An error about the file.
Error bad_private_file(std::string_view key, const std::string& path, std::string_view why);

}  // namespace tally::control
