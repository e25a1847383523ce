// Reads a JSON text that a person may have written. Every value knows its place in the text. The
// reader keeps the first mistake with its place. After a mistake reading goes on with harmless
// values, so the caller checks for a mistake once, at the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::plan {

// Parses the text. Refuses more than `max_bytes`, deep nesting, and a key that is twice in one
// object. Never throws.
Result<nlohmann::json> parse_document(std::string_view text, std::size_t max_bytes);

class Mistake {
 public:
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }
  void note(std::string text) {
    if (text_.empty()) text_ = std::move(text);
  }

 private:
  std::string text_;
};

struct OtherFormat {
  std::string_view format;
  std::string_view remedy;
};

// A value of a document. It refers to its parent value, which must outlive it.
class Value {
 public:
  Value(const nlohmann::json& document, Mistake& mistake) : json_(document), mistake_(mistake) {}

  // Notes a mistake when the value is no object whose member "fmt" is `format`. `others`: what to
  // do with files of other formats. Call it before expect_object(), because a file of another
  // format has other keys.
  void expect_format(std::string_view format, std::initializer_list<OtherFormat> others = {}) const;

  // The members of an object. expect_object() notes a mistake when the value is no object, or has a
  // key that is not in `keys`.
  void expect_object(std::initializer_list<std::string_view> keys) const;
  bool has(std::string_view key) const { return json_.is_object() && json_.contains(key); }
  Value member(std::string_view key) const;  // notes a mistake when the member is missing

  // The entries of a list. size() notes a mistake and returns 0 when the value is no list, or has
  // more than `most` entries. Precondition of entry(): index < size().
  std::size_t size(std::size_t most) const;
  Value entry(std::size_t index) const { return Value(json_[index], *this, {}, index); }

  bool is_null() const { return json_.is_null(); }
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  double number(std::string_view must = "a number") const;
  double speed() const { return number("a number of bytes per second, like 12.5e9"); }
  bool flag() const;
  std::string text(std::size_t longest) const;
  // Returns the index of the value in `words`. Notes a mistake and returns 0 when it is none of
  // them.
  std::size_t word(std::initializer_list<std::string_view> words) const;

  // Notes a mistake such as "domains[0].name = 7: must be ...". `must`: the end of the sentence.
  void refuse(std::string_view must) const;

 private:
  Value(const nlohmann::json& json, const Value& parent, std::string_view key, std::size_t index)
      : json_(json), mistake_(parent.mistake_), parent_(&parent), key_(key), index_(index) {}

  std::string place() const;

  const nlohmann::json& json_;
  Mistake& mistake_;
  const Value* parent_ = nullptr;
  std::string_view key_;  // empty for an entry of a list
  std::size_t index_ = 0;
};

}  // namespace tally::plan
