// A view as text. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace tally::control::top {

// Columns and lines of the terminal; 0: as many as it takes.
struct Screen {
  std::size_t width = 0;
  std::size_t height = 0;
};

// Of top_view(). Lines end with '\n', have at most `width` columns, and are at most `height`; the
// last then says how many are hidden. Texts that nodes sent cannot steer the terminal.
std::string render_top(const nlohmann::json& view, const Screen& screen);

}  // namespace tally::control::top
