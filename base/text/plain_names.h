// Rules for names. The names of nodes and hosts are shown to people, and any node may choose its
// own.
#pragma once

#include <algorithm>
#include <string_view>

namespace tally {

// True when the name has no control character: these make a terminal act.
inline bool is_plain(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' || byte == 0x7f;
  });
}

}  // namespace tally
