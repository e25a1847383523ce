#include "tests/roce/target/exchange.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

namespace tally::transport::roce::target {
namespace {

constexpr std::uint64_t kMost24 = (1U << 24) - 1;

// The fields between the colons, without the zero byte at the end.
std::vector<std::string_view> fields_of(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t colon = text.find(':');
    fields.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

// Reads hexadecimal digits and nothing else.
template <typename T>
bool read_hex(std::string_view text, T& value, std::uint64_t most = UINT32_MAX) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, 16);
  if (error != std::errc() || stop != end || number > most) return false;
  value = static_cast<T>(number);
  return true;
}

}  // namespace

std::string pingpong_text(const Endpoint& endpoint) {
  std::string text = fmt::format("0000:{:06x}:{:06x}:", endpoint.number, endpoint.first_psn);
  for (const std::uint8_t byte : endpoint.gid) text += fmt::format("{:02x}", byte);
  text.push_back('\0');
  return text;
}

std::optional<Endpoint> parse_pingpong(std::string_view text) {
  const auto fields = fields_of(text);
  Endpoint endpoint;
  if (fields.size() != 4 || fields[3].size() != 2 * endpoint.gid.size()) return std::nullopt;
  if (!read_hex(fields[1], endpoint.number, kMost24)) return std::nullopt;
  if (!read_hex(fields[2], endpoint.first_psn, kMost24)) return std::nullopt;
  for (std::size_t i = 0; i < endpoint.gid.size(); ++i) {
    if (!read_hex(fields[3].substr(2 * i, 2), endpoint.gid[i])) return std::nullopt;
  }
  return endpoint;
}

// The LID at the begin and the number of a shared receive queue at the end are 0 here.
std::string perftest_text(const Endpoint& endpoint) {
  std::string text =
      fmt::format("0000:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:", endpoint.reads, endpoint.number,
                  endpoint.first_psn, endpoint.key, endpoint.address);
  for (const std::uint8_t byte : endpoint.gid) text += fmt::format("{:02x}:", byte);
  text += "00000000:";
  text.push_back('\0');
  return text;
}

std::optional<Endpoint> parse_perftest(std::string_view text) {
  constexpr std::size_t kGid = 6;  // the field at which it begins
  const auto fields = fields_of(text);
  Endpoint endpoint;
  if (fields.size() != kGid + endpoint.gid.size() + 2) return std::nullopt;
  if (!read_hex(fields[1], endpoint.reads)) return std::nullopt;
  if (!read_hex(fields[2], endpoint.number, kMost24)) return std::nullopt;
  if (!read_hex(fields[3], endpoint.first_psn, kMost24)) return std::nullopt;
  if (!read_hex(fields[4], endpoint.key)) return std::nullopt;
  if (!read_hex(fields[5], endpoint.address, UINT64_MAX)) return std::nullopt;
  for (std::size_t i = 0; i < endpoint.gid.size(); ++i) {
    if (!read_hex(fields[kGid + i], endpoint.gid[i], UINT8_MAX)) return std::nullopt;
  }
  return endpoint;
}

std::uint32_t mtu_code(std::uint32_t bytes) {
  std::uint32_t code = 1;
  while (code < 5 && 256U << (code - 1) < bytes) ++code;
  return code;
}

}  // namespace tally::transport::roce::target
