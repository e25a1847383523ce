// The table of keys: what each is called, where it is kept, what it may be. File, flags, --help,
// --check-config and the checks all read this table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "control/config.h"

namespace tally::control {

// What no key can be: a table, an array, a date, a fraction.
struct Unusable {
  std::string text;
};

// A value as it was written: on the command line always a text.
struct Written {
  std::variant<std::int64_t, bool, std::string, Unusable> value;
  bool from_flag = false;
};

// How the value was written, for messages: 12, true, "text".
std::string shown(const Written& written);

enum class Measure : std::uint8_t { kCount, kBytes, kMode, kSpeed };  // kSpeed: bytes per second

struct NumberKey {
  std::uint64_t min = 0;
  std::uint64_t max = UINT64_MAX;
  Measure measure = Measure::kCount;
  bool zero_allowed = false;  // besides [min, max]
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
  bool secret = false;  // is not shown
};

struct Key {
  std::string_view table;  // "": the top of the file
  std::string_view name;
  std::string_view flag;  // "": none
  std::string_view help;
  std::variant<NumberKey, ChoiceKey, TruthKey, TextKey> kind;

  std::string path() const;  // "shards.count"
};

const std::vector<Key>& config_keys();

// Checks a number by itself: no `set` needed.
std::optional<std::uint64_t> read_number(const NumberKey& key, const Written& written);
std::string must_be(const NumberKey& key);

// Sets the value, or returns what it must be ("must be one of ...") and changes nothing.
std::string assign(const Key& key, Config& config, const Written& written);

// A secret.
bool is_secret(const Key& key);

// The value in force, as TOML.
std::string value_text(const Key& key, Config& config);

// In quotes, as TOML wants it.
std::string quoted_text(std::string_view text);

// "4 MiB", "256KiB", "4096" -> bytes; an error text else.
Result<std::uint64_t> parse_size(std::string_view text);
std::string size_text(std::uint64_t bytes);

// The nearest of `known` when it is near enough for a typing error, else "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace tally::control
