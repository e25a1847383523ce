// A view as text. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace tally::control::top {

// Columns and lines of the terminal; 0 means no limit.
struct Screen {
  std::size_t width = 0;
  std::size_t height = 0;
};

// Draws the result of top_view(). Lines end with '\n' and have at most `width` columns. There are
// at most `height` lines; when some are hidden, the last line says how many. Text from nodes cannot
// control the terminal.
std::string render_top(const nlohmann::json& view, const Screen& screen);

}  // namespace tally::control::top
