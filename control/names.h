// What names may be: those of nodes and hosts are shown to people, whoever has chosen them.
#pragma once

#include <algorithm>
#include <string_view>

namespace tally::control {

// Without the characters that make a terminal do something.
inline bool is_plain(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' || byte == 0x7f;
  });
}

}  // namespace tally::control
