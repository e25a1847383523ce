// Tables for people, made from JSON and a list of columns. A new counter needs one line.
#pragma once

#include <cstddef>
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
  kWhole,    // 1234567, for a value that may be a fraction
  kCount,    // 1.2M
  kBytes,    // 1.2 MiB
  kSeconds,  // 3.2 s, 4 min 5 s
  kPercent,  // ratio: 0.123 is 12.3%
};

struct Column {
  std::string_view key;  // key in the row's object
  std::string_view title;
  Format format = Format::kNumber;
  bool is_counter = false;  // only grows: shown per second when two samples are compared
};

// Values of an untrusted object: 0, or empty, when the key is missing or has another type.
double number_at(const nlohmann::json& row, std::string_view key);
std::string text_at(const nlohmann::json& row, std::string_view key);
nlohmann::json list_at(const nlohmann::json& row, std::string_view key);
// A list of names, joined with commas.
std::string names_at(const nlohmann::json& row, std::string_view key);

std::string format_value(const nlohmann::json& value, Format format);

// An aligned table with a title line; numbers are aligned to the right. A row without the key shows
// "-".
std::string render_table(const nlohmann::json& rows, std::span<const Column> columns);

// The table of the rows with the largest numbers at this key, the largest first. A line counts the
// rows beyond `most`.
std::string render_heaviest(nlohmann::json rows, std::string_view key,
                            std::span<const Column> columns, std::size_t most);

// The rows with each counter replaced by its growth per second since `before`, which has the rows
// in the same order.
nlohmann::json rates(const nlohmann::json& rows, const nlohmann::json& before, double seconds,
                     std::span<const Column> columns);

}  // namespace tally::control
