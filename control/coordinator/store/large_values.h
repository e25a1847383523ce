// Values of any size as values that a store with a limit takes. A value that is too large is in
// parts, which have keys of their own; the value's own key says which. A value is replaced by new
// parts, then its key, then the end of the old parts. So a reader finds the old value or the new
// one after any of these writes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/coordinator/store/write_queue.h"

namespace tally::control {

class LargeValues {
 public:
  // writer: names the parts that this writer makes; no other writer has the same.
  LargeValues(std::string writer, std::size_t part_bytes)
      : writer_(std::move(writer)), part_bytes_(part_bytes) {}

  // The value that the store has in one piece; empty: it is in parts, or no value of this class.
  static std::string_view whole(std::string_view stored);

  // The writes that set or erase the value of a key.
  std::vector<Write> put(const std::string& key, const std::string& value);
  std::vector<Write> erase(const std::string& key);

  struct Read {
    std::map<std::string, std::string> values;  // whole, by key
    std::vector<std::string> unreadable;        // keys whose value has a missing part
    std::vector<Write> left_over;  // erase the parts that an earlier writer has not finished
  };
  // Joins the parts of all values of the store, which this writer replaces from now on.
  Read read(std::map<std::string, std::string> stored);

 private:
  void end_parts(const std::string& key, std::vector<Write>& writes);

  const std::string writer_;
  const std::size_t part_bytes_;
  std::uint64_t last_ = 0;                                 // number of the last value in parts
  std::map<std::string, std::vector<std::string>> parts_;  // keys of the parts, by key
};

}  // namespace tally::control
