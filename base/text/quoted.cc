#include "base/text/quoted.h"

#include <fmt/printf.h>

namespace tally {

std::string quoted(std::string_view text, const char* escape) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < ' ' || byte == 0x7f) {
      out += fmt::sprintf(escape, static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tally
