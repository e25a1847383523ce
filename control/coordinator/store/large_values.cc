#include "control/coordinator/store/large_values.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tally::control {
namespace {

// The first byte of a value says whether the value follows, or the keys of its parts.
constexpr char kWhole = 'v';
constexpr char kInParts = 'p';
constexpr std::string_view kParts = "part/";

// The keys of the parts; empty: the text is no list of them.
std::vector<std::string> part_keys(std::string_view text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return {};
  std::vector<std::string> keys;
  for (const auto& one : list) {
    if (!one.is_string()) return {};
    keys.push_back(one.get<std::string>());
  }
  return keys;
}

}  // namespace

std::string_view LargeValues::whole(std::string_view stored) {
  return stored.starts_with(kWhole) ? stored.substr(1) : std::string_view();
}

std::vector<Write> LargeValues::put(const std::string& key, const std::string& value) {
  std::vector<Write> writes;
  if (value.size() <= part_bytes_) {
    writes.push_back({key, kWhole + value});
    end_parts(key, writes);
    return writes;
  }
  ++last_;
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < value.size(); at += part_bytes_) {
    parts.push_back(fmt::format("{}{}/{}/{}", kParts, writer_, last_, parts.size()));
    writes.push_back({parts.back(), value.substr(at, part_bytes_)});
  }
  writes.push_back({key, kInParts + nlohmann::json(parts).dump()});
  end_parts(key, writes);
  parts_[key] = std::move(parts);
  return writes;
}

std::vector<Write> LargeValues::erase(const std::string& key) {
  std::vector<Write> writes = {{key, std::nullopt}};
  end_parts(key, writes);
  return writes;
}

void LargeValues::end_parts(const std::string& key, std::vector<Write>& writes) {
  const auto found = parts_.find(key);
  if (found == parts_.end()) return;
  for (std::string& part : found->second) writes.push_back({std::move(part), std::nullopt});
  parts_.erase(found);
}

LargeValues::Read LargeValues::read(std::map<std::string, std::string> stored) {
  Read read;
  std::set<std::string> used;
  for (auto& [key, value] : stored) {
    if (key.starts_with(kParts)) continue;
    if (value.starts_with(kWhole)) {
      read.values[key] = value.substr(1);
      continue;
    }
    std::string whole;
    bool complete = value.starts_with(kInParts);
    auto parts =
        complete ? part_keys(std::string_view(value).substr(1)) : std::vector<std::string>();
    complete = !parts.empty();
    for (const std::string& part : parts) {
      const auto found = stored.find(part);
      if (found == stored.end() || !part.starts_with(kParts)) {
        complete = false;
        break;
      }
      whole += found->second;
      used.insert(part);
    }
    if (complete) {
      read.values[key] = std::move(whole);
      parts_[key] = std::move(parts);
    } else {
      read.unreadable.push_back(key);
    }
  }
  for (const auto& [key, value] : stored) {
    if (key.starts_with(kParts) && !used.contains(key))
      read.left_over.push_back({key, std::nullopt});
  }
  return read;
}

}  // namespace tally::control
