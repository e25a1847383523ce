// Figures of plans in words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tally::control {

// "1 tree", "3 trees".
std::string count_of(std::size_t count, std::string_view what);

// "12.3 ms", "1.5 s".
std::string seconds_text(double seconds);

// A time per byte, in seconds: "0.8 ns per byte (1.25 GB/s)".
std::string tau_text(double tau);

// A line that says for which operations a plan with this objective gives times; empty for
// all-reduces.
std::string objective_note(std::string_view objective);

}  // namespace tally::control
