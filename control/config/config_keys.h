// The table of configuration keys: the name of each, the field that stores it, and its allowed
// values. File, flags, --help, --check-config and the checks all read this table. config_values.cc
// implements the functions on values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "control/config/config.h"

namespace tally::control {

// A TOML value that no key accepts: a table, an array, a date, a fraction.
struct Unusable {
  std::string text;
};

// A value as the user wrote it; on the command line it is always a text.
struct Written {
  std::variant<std::int64_t, bool, std::string, Unusable> value;
  bool from_flag = false;
};

// The value as the user wrote it, for messages: 12, true, "text".
std::string shown(const Written& written);

enum class Measure : std::uint8_t { kCount, kBytes, kMode, kSpeed };  // kSpeed: bytes per second

struct NumberKey {
  std::uint64_t min = 0;
  std::uint64_t max = UINT64_MAX;
  Measure measure = Measure::kCount;
  bool zero_allowed = false;  // 0 is valid in addition to [min, max]
  std::uint64_t multiple_of = 1;
  std::function<void(Config&, std::uint64_t)> set;
  std::function<std::uint64_t(Config&)> get;
};

struct ChoiceKey {
  std::vector<std::string_view> choices;
  std::function<void(Config&, std::size_t)> set;
  std::function<std::size_t(Config&)> get;
};

struct TruthKey {
  std::function<bool&(Config&)> at;
};

struct TextKey {
  std::function<std::string&(Config&)> at;
  bool may_be_empty = false;
  bool secret = false;  // output never shows the value
};

struct Key {
  std::string_view table;  // "": the top of the file
  std::string_view name;
  std::string_view flag;  // "" means that the key has no flag
  std::string_view help;
  std::variant<NumberKey, ChoiceKey, TruthKey, TextKey> kind;

  std::string path() const;  // "shards.count"
};

const std::vector<Key>& config_keys();

// Reads and checks a number; does not use NumberKey::set.
std::optional<std::uint64_t> read_number(const NumberKey& key, const Written& written);
std::string must_be(const NumberKey& key);

// The error of a value, as the text that follows it in a message: " is a string: write a number,
// without quotes", ": must be from 1 to 127". wrong_number() is for numbers, wrong_text() for a
// text of at most `most` bytes.
std::string wrong_number(const NumberKey& key, const Written& written);
std::string wrong_text(const Written& written, std::size_t most);

// Sets the value. When the value is wrong, returns its error as above and changes nothing.
std::string assign(const Key& key, Config& config, const Written& written);

// Whether the key's value is a secret.
bool is_secret(const Key& key);

// The value in force, as TOML.
std::string value_text(const Key& key, Config& config);

// The text as a quoted TOML string.
std::string quoted_text(std::string_view text);

}  // namespace tally::control
