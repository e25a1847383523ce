// The files in which the kernel shows itself (/sys, /proc, /dev), below a root of one's choice: the
// tests build such trees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control::doctor {

class Files {
 public:
  // `root` "" is the machine's own.
  explicit Files(std::string root = {}) : root_(std::move(root)) {}

  // The text without the white space at its ends. kUnavailable: there is no such file; kRefused:
  // this user may not read it; kInternal: something else, as the message says.
  Result<std::string> read(std::string_view path) const;
  // A file with one number in it, in decimal; what follows the number is not looked at.
  Result<std::uint64_t> number(std::string_view path) const;
  // The names in a folder: the shorter first, then by the alphabet, so that numbers are in order.
  // None where there is no such folder.
  std::vector<std::string> list(std::string_view path) const;
  bool exists(std::string_view path) const;
  // Where it is for system calls.
  std::string at(std::string_view path) const { return root_ + std::string(path); }

 private:
  std::string root_;
};

// "0-3,8" -> 0, 1, 2, 3, 8, as the kernel writes sets of CPUs and nodes; what is not such a list
// ends it.
std::vector<int> parse_list(std::string_view text);

// "9000 (8 of them)" -> 9000; the number that a text begins with.
Result<std::uint64_t> leading_number(std::string_view text);

// The parts between white space.
std::vector<std::string> words_of(std::string_view text);

// The text with a name for each "{}" in it: remedies stand in tables, and are to be typed as
// printed.
std::string filled_in(std::string_view text, const std::string& name);

// "a, b, c"
std::string joined(const std::vector<std::string>& words);

}  // namespace tally::control::doctor
