#include "base/text/speed.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tally {
namespace {

struct SpeedUnit {
  std::string_view name;
  double factor;
};

constexpr SpeedUnit kSpeedScales[] = {
    {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"k", 1e3},
    {"K", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},    {"", 1}};
constexpr SpeedUnit kSpeedUnits[] = {{"bit", 1.0 / 8}, {"B", 1}};

}  // namespace

Result<double> parse_speed(std::string_view text) {
  const Error error{Status::kInvalidArgument,
                    fmt::format("\"{}\" is not a speed like 100Gbit or 12.5GB", text)};
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || !std::isfinite(value) || value <= 0) return error;
  std::string_view unit = text.substr(static_cast<std::size_t>(read.ptr - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  for (const SpeedUnit& scale : kSpeedScales) {
    for (const SpeedUnit& base : kSpeedUnits) {
      const bool fits = unit.starts_with(scale.name) && unit.substr(scale.name.size()) == base.name;
      if (fits) return value * scale.factor * base.factor;
    }
  }
  return error;
}

std::string speed_text(double bytes_per_second) {
  for (const auto& [name, factor] : {SpeedUnit{"TB/s", 1e12}, SpeedUnit{"GB/s", 1e9},
                                     SpeedUnit{"MB/s", 1e6}, SpeedUnit{"kB/s", 1e3}}) {
    if (bytes_per_second >= factor)
      return fmt::format("{:.4g} {}", bytes_per_second / factor, name);
  }
  return fmt::format("{:.4g} B/s", bytes_per_second);
}

}  // namespace tally
