// Puts text between double quotes, for formats that escape like C.
#pragma once

#include <string>
#include <string_view>

namespace tally {

// Puts a backslash before quotes and backslashes. Control characters become `escape`, a printf
// format for an unsigned int such as "\\x%02x".
std::string quoted(std::string_view text, const char* escape);

}  // namespace tally
