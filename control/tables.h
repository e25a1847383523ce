// Tables for people, made of JSON by a list of columns: a new counter needs one line.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace tally::control {

// How a value is written.
enum class Format : std::uint8_t {
  kText,
  kNumber,   // 1234567
  kCount,    // 1.2M
  kBytes,    // 1.2 MiB
  kSeconds,  // 3.2 s, 4 min 5 s
  kPercent,  // of a share: 0.123 is 12.3%
};

struct Column {
  std::string_view key;  // of the row's object
  std::string_view title;
  Format format = Format::kNumber;
  bool is_counter = false;  // grows: shown per second where two samples are compared
};

// Of an object that somebody sent: 0, or empty, where the key is missing or something else is
// there.
double number_at(const nlohmann::json& row, std::string_view key);
std::string text_at(const nlohmann::json& row, std::string_view key);
nlohmann::json list_at(const nlohmann::json& row, std::string_view key);
// A list of names, with commas.
std::string names_at(const nlohmann::json& row, std::string_view key);

std::string format_value(const nlohmann::json& value, Format format);

// Aligned, with a title line; numbers to the right. A row without the key shows "-".
std::string render_table(const nlohmann::json& rows, std::span<const Column> columns);

// The rows with their counters replaced by what they grew per second since `before` (rows of the
// same order).
nlohmann::json rates(const nlohmann::json& rows, const nlohmann::json& before, double seconds,
                     std::span<const Column> columns);

}  // namespace tally::control
