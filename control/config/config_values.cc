// Values of keys: parsing, checks and formatting.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/nearest.h"
#include "base/text/quoted.h"
#include "base/text/sizes.h"
#include "base/text/speed.h"
#include "base/units.h"
#include "control/config/config_keys.h"

namespace tally::control {
namespace {

std::string join(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  return text;
}

std::string number_text(Measure measure, std::uint64_t value) {
  switch (measure) {
    case Measure::kBytes:
      return size_text(value);
    case Measure::kMode:
      return fmt::format("{:04o}", value);
    case Measure::kSpeed:
      return value % kKib == 0 ? size_text(value) : fmt::format("{}B", value);
    case Measure::kCount:
      break;
  }
  return fmt::format("{}", value);
}

std::optional<std::uint64_t> parse_digits(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The written number, whether or not it is in the key's range.
std::optional<std::uint64_t> number_of(Measure measure, const Written& written) {
  if (const auto* integer = std::get_if<std::int64_t>(&written.value)) {
    if (*integer < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*integer);
  }
  const auto* text = std::get_if<std::string>(&written.value);
  if (text == nullptr) return std::nullopt;
  if (measure == Measure::kMode) return parse_digits(*text, 8);
  if (measure == Measure::kSpeed) {
    if (const auto speed = parse_speed(*text); speed.ok()) return std::llround(*speed);
  }
  if (measure == Measure::kBytes || measure == Measure::kSpeed) {
    const auto size = parse_size(*text);
    return size.ok() ? std::optional(size.value()) : std::nullopt;
  }
  // In the file, a count is written as a number.
  return written.from_flag ? parse_digits(*text, 10) : std::nullopt;
}

// "a string"; empty when the text of the value shows its type.
std::string_view type_of(const Written& written) {
  if (std::holds_alternative<std::string>(written.value)) return "a string";
  if (std::holds_alternative<bool>(written.value)) return "a boolean";
  if (std::holds_alternative<std::int64_t>(written.value)) return "a number";
  return {};
}

// " is a string: write a number, without quotes": the type is wrong, whatever the value.
std::string wrong_type(const Written& written, std::string_view wanted) {
  const auto type = type_of(written);
  if (type.empty()) return fmt::format(": must be {}", wanted);
  return fmt::format(" is {}: write {}", type, wanted);
}

std::string_view wanted_type(Measure measure) {
  switch (measure) {
    case Measure::kBytes:
      return "a size like \"4MiB\", or bytes as a number";
    case Measure::kSpeed:
      return "a speed like \"100Gbit\", or bytes per second as a number";
    case Measure::kMode:
      return "octal digits in quotes, like \"0660\"";
    case Measure::kCount:
      break;
  }
  return "a number, without quotes";
}

// True when the value has the type of the key's measure, whether or not it is in its range.
bool has_type(const NumberKey& key, const Written& written) {
  if (std::holds_alternative<std::int64_t>(written.value)) return true;
  if (!std::holds_alternative<std::string>(written.value)) return false;
  return written.from_flag || key.measure != Measure::kCount;
}

std::string assign_number(const NumberKey& key, Config& config, const Written& written) {
  const auto value = read_number(key, written);
  if (!value) return wrong_number(key, written);
  key.set(config, *value);
  return {};
}

std::string assign_choice(const ChoiceKey& key, Config& config, const Written& written) {
  const auto* text = std::get_if<std::string>(&written.value);
  const auto at = text == nullptr ? key.choices.end()
                                  : std::find(key.choices.begin(), key.choices.end(), *text);
  if (text == nullptr) {
    return wrong_type(written, fmt::format("one of {}, in quotes", join(key.choices)));
  }
  if (at == key.choices.end()) {
    return fmt::format(": must be one of {}{}", join(key.choices),
                       did_you_mean(*text, key.choices));
  }
  key.set(config, static_cast<std::size_t>(at - key.choices.begin()));
  return {};
}

std::string assign_truth(const TruthKey& key, Config& config, const Written& written) {
  if (const auto* truth = std::get_if<bool>(&written.value)) {
    key.at(config) = *truth;
    return {};
  }
  const auto* text = std::get_if<std::string>(&written.value);
  if (written.from_flag && text != nullptr && (*text == "true" || *text == "false")) {
    key.at(config) = *text == "true";
    return {};
  }
  return wrong_type(written, "true or false, without quotes");
}

std::string assign_text(const TextKey& key, Config& config, const Written& written) {
  const auto* text = std::get_if<std::string>(&written.value);
  if (text == nullptr) return wrong_type(written, "a text, in quotes");
  if (text->empty() && !key.may_be_empty) return ": must not be empty";
  key.at(config) = *text;
  return {};
}

}  // namespace

std::optional<std::uint64_t> read_number(const NumberKey& key, const Written& written) {
  const auto value = number_of(key.measure, written);
  if (value && *value == 0 && key.zero_allowed) return value;
  const bool allowed =
      value && *value >= key.min && *value <= key.max && *value % key.multiple_of == 0;
  return allowed ? value : std::nullopt;
}

std::string must_be(const NumberKey& key) {
  std::string text =
      fmt::format("must be {}from {} to {}", key.zero_allowed ? "0, or " : "",
                  number_text(key.measure, key.min), number_text(key.measure, key.max));
  if (key.measure == Measure::kSpeed) text += " per second, like 100Gbit or 12.5GB";
  if (key.measure == Measure::kMode) text += ", in octal digits (\"0660\")";
  if (key.multiple_of > 1) text += fmt::format(", a multiple of {}", size_text(key.multiple_of));
  return text;
}

std::string wrong_number(const NumberKey& key, const Written& written) {
  if (!has_type(key, written)) return wrong_type(written, wanted_type(key.measure));
  return ": " + must_be(key);
}

std::string wrong_text(const Written& written, std::size_t most) {
  if (!std::holds_alternative<std::string>(written.value)) {
    return wrong_type(written, "a text, in quotes");
  }
  return fmt::format(": must be a text of 1 to {} bytes, without control characters", most);
}

std::string shown(const Written& written) {
  if (const auto* integer = std::get_if<std::int64_t>(&written.value)) {
    return fmt::format("{}", *integer);
  }
  if (const auto* truth = std::get_if<bool>(&written.value)) return *truth ? "true" : "false";
  if (const auto* other = std::get_if<Unusable>(&written.value)) return other->text;
  return fmt::format("\"{}\"", std::get<std::string>(written.value));
}

std::string assign(const Key& key, Config& config, const Written& written) {
  if (const auto* kind = std::get_if<NumberKey>(&key.kind)) {
    return assign_number(*kind, config, written);
  }
  if (const auto* kind = std::get_if<ChoiceKey>(&key.kind)) {
    return assign_choice(*kind, config, written);
  }
  if (const auto* kind = std::get_if<TruthKey>(&key.kind)) {
    return assign_truth(*kind, config, written);
  }
  return assign_text(std::get<TextKey>(key.kind), config, written);
}

bool is_secret(const Key& key) {
  const auto* text = std::get_if<TextKey>(&key.kind);
  return text != nullptr && text->secret;
}

std::string value_text(const Key& key, Config& config) {
  if (const auto* kind = std::get_if<NumberKey>(&key.kind)) {
    const std::string text = number_text(kind->measure, kind->get(config));
    return kind->measure == Measure::kCount ? text : fmt::format("\"{}\"", text);
  }
  if (const auto* kind = std::get_if<ChoiceKey>(&key.kind)) {
    return fmt::format("\"{}\"", kind->choices[kind->get(config)]);
  }
  if (const auto* kind = std::get_if<TruthKey>(&key.kind)) {
    return kind->at(config) ? "true" : "false";
  }
  return quoted_text(std::get<TextKey>(key.kind).at(config));
}

std::string quoted_text(std::string_view text) {
  return quoted(text, "\\u%04x");
}

}  // namespace tally::control
