#include "base/text/sizes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

namespace tally {
namespace {

constexpr std::string_view kSizeUnits = "KMGT";

std::string in_largest_unit(std::uint64_t bytes, std::string_view ending) {
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < kSizeUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", bytes)
                   : fmt::format("{}{}{}", bytes, kSizeUnits[unit - 1], ending);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const Error error{Status::kInvalidArgument,
                    fmt::format("\"{}\" is not a size like 4MiB: write digits, then K, M, G or T "
                                "(powers of 1024), with or without iB",
                                text)};
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{}) return error;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() || unit == "B") return value;
  const auto found = kSizeUnits.find(static_cast<char>(std::toupper(unit.front())));
  const std::string_view rest = unit.substr(1);
  if (found == std::string_view::npos || !(rest.empty() || rest == "iB")) return error;
  const auto shift = static_cast<unsigned>(10 * (found + 1));
  if (value > (UINT64_MAX >> shift)) return error;
  return value << shift;
}

std::string size_text(std::uint64_t bytes) {
  return in_largest_unit(bytes, "iB");
}

std::string short_size_text(std::uint64_t bytes) {
  return in_largest_unit(bytes, "");
}

std::vector<std::uint64_t> size_sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = min; size <= max; size *= factor) {
    sizes.push_back(size);
    if (size > UINT64_MAX / factor) break;
  }
  return sizes;
}

}  // namespace tally
