// Damaged copies of a JSON document, for tests of the messages of its reader.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tally::plan {

struct DamagedCopy {
  std::string text;
  std::string place;  // of the damage, as messages name it
};

inline void damage_below(const nlohmann::json& whole, nlohmann::json::json_pointer at,
                         const std::string& place, std::vector<DamagedCopy>& copies) {
  const nlohmann::json& here = whole[at];
  const auto replace = [&](nlohmann::json value, const std::string& where) {
    nlohmann::json damaged = whole;
    damaged[at] = std::move(value);
    copies.push_back({damaged.dump(), where});
  };
  // Another type, in each place.
  if (here.is_object() || here.is_array()) {
    replace("damaged", place);
  } else {
    replace({{"damaged", 1}}, place);
  }
  if (here.is_object()) {
    nlohmann::json more = here;
    more["damaged"] = 1;  // a key that nothing reads
    replace(std::move(more), place.empty() ? "damaged" : place + ".\"damaged\"");
    for (const auto& [key, value] : here.items()) {
      damage_below(whole, at / key, place.empty() ? key : place + "." + key, copies);
    }
  }
  if (here.is_array()) {
    for (std::size_t i = 0; i < here.size(); ++i) {
      damage_below(whole, at / i, fmt::format("{}[{}]", place, i), copies);
    }
  }
}

// Returns copies with one value of another type, or with one unknown key, for each place.
inline std::vector<DamagedCopy> damaged_copies(const std::string& text) {
  std::vector<DamagedCopy> copies;
  const auto document = nlohmann::json::parse(text);
  damage_below(document, nlohmann::json::json_pointer(), "", copies);
  return copies;
}

// Returns copies that end early, and copies with another byte. Each may be sound or not.
inline std::vector<std::string> torn_copies(const std::string& text) {
  std::vector<std::string> copies;
  for (std::size_t i = 0; i < text.size(); i += 1 + text.size() / 100) {
    copies.push_back(text.substr(0, i));
    for (const char byte : {'\0', '-', '9', '"', '}', '\xff'}) {
      copies.push_back(text);
      copies.back()[i] = byte;
    }
  }
  return copies;
}

}  // namespace tally::plan
