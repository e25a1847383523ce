#include "control/cli/common/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tally::control {
namespace {

using nlohmann::json;

std::string scaled(double value, double base, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  // A value in the smallest unit has no decimals, because nothing was cut off.
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0])
                   : fmt::format("{:.1f}{}", value, units[unit]);
}

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

// A node's texts come from its clients, so control characters in them must not reach the terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) c = '?';
  }
  return text;
}

json field(const json& row, std::string_view key) {
  if (!row.is_object()) return nullptr;
  const auto at = row.find(key);
  return at == row.end() ? json(nullptr) : *at;
}

}  // namespace

double number_at(const json& row, std::string_view key) {
  const json value = field(row, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string text_at(const json& row, std::string_view key) {
  const json value = field(row, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

json list_at(const json& row, std::string_view key) {
  json value = field(row, key);
  return value.is_array() ? value : json::array();
}

std::string names_at(const json& row, std::string_view key) {
  std::string text;
  for (const json& name : list_at(row, key)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", format_value(name, Format::kText));
  }
  return text;
}

std::string format_value(const json& value, Format format) {
  static constexpr std::array<std::string_view, 5> kBytes = {" B", " KiB", " MiB", " GiB", " TiB"};
  static constexpr std::array<std::string_view, 5> kCounts = {"", "k", "M", "G", "T"};
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return printable(value.get<std::string>());
  if (!value.is_number()) return printable(value.dump());
  const auto number = value.get<double>();
  switch (format) {
    case Format::kBytes:
      return scaled(number, 1024, kBytes);
    case Format::kCount:
      return scaled(number, 1000, kCounts);
    case Format::kSeconds:
      return duration(number);
    case Format::kWhole:
      return fmt::format("{:.0f}", number);
    case Format::kPercent:
      return fmt::format("{:.1f}%", 100 * number);
    case Format::kText:
    case Format::kNumber:
      break;
  }
  return value.is_number_float() ? fmt::format("{:.1f}", number) : value.dump();
}

std::string render_table(const json& rows, std::span<const Column> columns) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Column& column : columns) cells[0].emplace_back(column.title);
  for (const json& row : rows) {
    auto& line = cells.emplace_back();
    for (const Column& column : columns) {
      line.push_back(format_value(field(row, column.key), column.format));
    }
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : cells) {
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (i > 0) out += "  ";
      out += columns[i].format == Format::kText ? fmt::format("{:<{}}", line[i], widths[i])
                                                : fmt::format("{:>{}}", line[i], widths[i]);
    }
    out.resize(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  }
  return text;
}

std::string render_heaviest(json rows, std::string_view key, std::span<const Column> columns,
                            std::size_t most) {
  std::stable_sort(rows.begin(), rows.end(), [&](const json& a, const json& b) {
    return number_at(a, key) > number_at(b, key);
  });
  const std::size_t count = rows.size();
  if (count > most) rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(most), rows.end());
  std::string text = render_table(rows, columns);
  if (count > most) text += fmt::format("and {} more: --all\n", count - most);
  return text;
}

json rates(const json& rows, const json& before, double seconds, std::span<const Column> columns) {
  json changed = rows;
  for (std::size_t i = 0; i < changed.size() && i < before.size(); ++i) {
    for (const Column& column : columns) {
      if (!column.is_counter || seconds <= 0) continue;
      const json now = field(rows[i], column.key);
      const json then = field(before[i], column.key);
      if (!now.is_number() || !then.is_number()) continue;
      // A node that was restarted counts from zero again.
      const double grown = std::max(0.0, now.get<double>() - then.get<double>());
      changed[i][std::string(column.key)] = grown / seconds;
    }
  }
  return changed;
}

}  // namespace tally::control
