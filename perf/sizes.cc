#include "perf/sizes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

namespace tally::perf {
namespace {

constexpr std::string_view kUnits = "KMGT";

Error bad_size(std::string_view text) {
  return Error{Status::kInvalidArgument,
               fmt::format("'{}' is not a size: digits, then K, M, G or T (powers of 1024)", text)};
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return bad_size(text);
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (suffix.empty() || suffix == "B") return value;
  const auto unit = kUnits.find(static_cast<char>(std::toupper(suffix.front())));
  const std::string_view rest = suffix.substr(1);
  if (unit == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) {
    return bad_size(text);
  }
  const auto shift = static_cast<unsigned>(10 * (unit + 1));
  if (value > (UINT64_MAX >> shift)) return bad_size(text);
  return value << shift;
}

std::string format_bytes(std::uint64_t bytes) {
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, kUnits[unit - 1]);
}

std::vector<std::uint64_t> size_sweep(std::uint64_t min, std::uint64_t max, std::uint64_t factor) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = min; size <= max; size *= factor) {
    sizes.push_back(size);
    if (size > UINT64_MAX / factor) break;
  }
  return sizes;
}

}  // namespace tally::perf
