// Reading a JSON text that somebody wrote: every value knows its place, and the first mistake is
// kept with it. Reading goes on after a mistake with harmless values, so callers ask once, at the
// end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::plan {

// Parses, with bounds: depth, and no key twice in an object. Never throws.
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

// A value of a document. Refers to its parent: made on the way down, gone on the way up.
class Value {
 public:
  Value(const nlohmann::json& document, Mistake& mistake) : json_(document), mistake_(mistake) {}

  // Members of an object. A mistake when it is none, or has keys other than these.
  void expect_object(std::initializer_list<std::string_view> keys) const;
  bool has(std::string_view key) const { return json_.is_object() && json_.contains(key); }
  Value member(std::string_view key) const;  // a mistake when missing

  // Entries of a list. A mistake when it is none, or has more than `most`.
  std::size_t size(std::size_t most) const;
  Value entry(std::size_t index) const { return Value(json_[index], *this, {}, index); }

  bool is_null() const { return json_.is_null(); }
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  double number() const;
  bool flag() const;
  std::string text(std::size_t longest) const;
  // The index of one of the words.
  std::size_t word(std::initializer_list<std::string_view> words) const;

  // "domains[0].name = 7: must be ..."
  void refuse(std::string_view must) const;

 private:
  Value(const nlohmann::json& json, const Value& parent, std::string_view key, std::size_t index)
      : json_(json), mistake_(parent.mistake_), parent_(&parent), key_(key), index_(index) {}

  std::string place() const;

  const nlohmann::json& json_;
  Mistake& mistake_;
  const Value* parent_ = nullptr;
  std::string_view key_;  // empty: an entry of a list
  std::size_t index_ = 0;
};

}  // namespace tally::plan
