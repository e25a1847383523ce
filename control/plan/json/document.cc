#include "control/plan/json/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tally::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kLongestShown = 40;  // of a value in a message

Error bad_document(std::string_view what) {
  return Error{Status::kInvalidArgument, std::string(what)};
}

// The value in ASCII, and short: the name of an object that has one, or the first characters of
// the value.
std::string shown(const json& value) {
  if (value.is_object() && value.contains("name") && value["name"].is_string()) {
    return shown(value["name"]);
  }
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  return text;
}

std::string joined(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const auto word : words) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  return text;
}

// "parse error at line 3, column 5: ..." of "[json.exception.parse_error.101] parse error ...".
std::string reason(const json::exception& error) {
  const std::string_view what = error.what();
  const auto bracket = what.find("] ");
  std::string text(bracket == std::string_view::npos ? what : what.substr(bracket + 2));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

// A text without a value, or one that was cut off. Blanks at its end do not count.
std::string early_end(std::string_view text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return "is empty; must be JSON";
  const std::string_view given = text.substr(0, last + 1);
  const auto line_begin = given.rfind('\n') + 1;  // 0 in the first line
  return fmt::format("ends early, at line {}, column {}; write it again, whole",
                     1 + std::count(given.begin(), given.end(), '\n'), given.size() - line_begin);
}

// Checks a text before it is parsed: for errors of JSON, and for errors that the parser accepts.
// (Callbacks of the parser would search a list again for each object in it.)
class Inspector : public json::json_sax_t {
 public:
  explicit Inspector(std::string_view text) : text_(text) {}

  const Mistake& mistake() const { return mistake_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(std::string& key) override {
    if (keys_.back().insert(key).second) return true;
    mistake_.note(fmt::format("{}: given twice in one object; leave one out", shown(key)));
    return false;
  }

  // The parser counts the end of the text as one more byte that it has read.
  bool parse_error(std::size_t bytes_read, const std::string&,
                   const json::exception& error) override {
    mistake_.note(bytes_read > text_.size() ? early_end(text_) : "not JSON: " + reason(error));
    return false;
  }

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) return true;
    mistake_.note(fmt::format("nested deeper than {} levels: not a plan", kMaxDepth));
    return false;
  }

  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  std::vector<std::set<std::string>> keys_;  // of the enclosing objects and lists
  Mistake mistake_;
};

}  // namespace

Result<json> parse_document(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return bad_document(fmt::format("more than {} bytes; make it smaller", max_bytes));
  }
  Inspector inspector(text);
  if (!json::sax_parse(text, &inspector)) return bad_document(inspector.mistake().text());
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string Value::place() const {
  if (parent_ == nullptr) return {};
  const std::string before = parent_->place();
  if (key_.empty()) return fmt::format("{}[{}]", before, index_);
  return before.empty() ? std::string(key_) : fmt::format("{}.{}", before, key_);
}

void Value::refuse(std::string_view must) const {
  if (mistake_.any()) return;
  const std::string at = place();
  mistake_.note(
      fmt::format("{} = {}: must be {}", at.empty() ? "the file" : at, shown(json_), must));
}

void Value::expect_format(std::string_view format,
                          std::initializer_list<OtherFormat> others) const {
  if (!json_.is_object()) return refuse("an object");
  const Value given = member("fmt");
  for (const auto& [other, remedy] : others) {
    if (given.json_ == other) return given.refuse(fmt::format("\"{}\"; {}", format, remedy));
  }
  given.word({format});
}

void Value::expect_object(std::initializer_list<std::string_view> keys) const {
  if (!json_.is_object()) return refuse("an object");
  for (const auto& [key, value] : json_.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string at = place();
    mistake_.note(fmt::format("{}{}{}: not known here; must be one of {}", at,
                              at.empty() ? "" : ".", shown(key), joined(keys)));
    return;
  }
}

Value Value::member(std::string_view key) const {
  static const json nothing;
  if (!has(key)) {
    const std::string at = place();
    mistake_.note(fmt::format("{}{}{}: missing; must be given", at, at.empty() ? "" : ".", key));
    return Value(nothing, *this, key, 0);
  }
  return Value(json_[std::string(key)], *this, key, 0);
}

std::size_t Value::size(std::size_t most) const {
  if (!json_.is_array()) {
    refuse("a list");
    return 0;
  }
  if (json_.size() <= most) return json_.size();
  mistake_.note(fmt::format("{}: {} entries; must be at most {}", place(), json_.size(), most));
  return 0;
}

std::int64_t Value::integer(std::int64_t min, std::int64_t max) const {
  const bool is_small = json_.is_number_integer() &&
                        (!json_.is_number_unsigned() ||
                         json_.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  const std::int64_t value = is_small ? json_.get<std::int64_t>() : 0;
  if (is_small && value >= min && value <= max) return value;
  refuse(fmt::format("a whole number from {} to {}", min, max));
  return min;
}

double Value::number(std::string_view must) const {
  if (json_.is_number()) return json_.get<double>();
  refuse(must);
  return 0;
}

bool Value::flag() const {
  if (json_.is_boolean()) return json_.get<bool>();
  refuse("true or false");
  return false;
}

std::string Value::text(std::size_t longest) const {
  if (json_.is_string() && json_.get_ref<const std::string&>().size() <= longest) {
    return json_.get<std::string>();
  }
  refuse(fmt::format("a text of at most {} bytes", longest));
  return {};
}

std::size_t Value::word(std::initializer_list<std::string_view> words) const {
  if (json_.is_string()) {
    const auto at = std::find(words.begin(), words.end(), json_.get_ref<const std::string&>());
    if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  }
  refuse((words.size() > 1 ? "one of " : "") + joined(words));
  return 0;
}

}  // namespace tally::plan
