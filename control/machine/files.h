// Reads the files in which the kernel presents the machine (/sys, /proc, /dev), below a root
// folder. Tests build such folders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control {

class Files {
 public:
  // An empty `root` means the machine's own files.
  explicit Files(std::string root = {}) : root_(std::move(root)) {}

  // Returns the text without white space at its ends. Errors: kUnavailable when the file does not
  // exist, kRefused when this user may not read it, kInternal otherwise, with the reason in the
  // message.
  Result<std::string> read(std::string_view path) const;
  // Returns the decimal number at the start of a file. Ignores the rest of the file.
  Result<std::uint64_t> number(std::string_view path) const;
  // Returns the names in a folder: shorter names first, then alphabetically, so numbers are in
  // order. Returns none when the folder does not exist.
  std::vector<std::string> list(std::string_view path) const;
  bool exists(std::string_view path) const;
  // Returns the path for system calls.
  std::string at(std::string_view path) const { return root_ + std::string(path); }

 private:
  std::string root_;
};

// Converts "0-3,8" to 0, 1, 2, 3, 8. The kernel writes sets of CPUs and nodes in this form. The
// list ends at the first text that does not fit the form.
std::vector<int> parse_list(std::string_view text);

// Returns the number at the start of a text: 9000 for "9000 (8 of them)".
Result<std::uint64_t> leading_number(std::string_view text);

// Splits a text at white space.
std::vector<std::string> words_of(std::string_view text);

// Replaces each "{}" in the text by `name`. Remedies are in tables, and a user must be able to type
// them as printed.
std::string filled_in(std::string_view text, const std::string& name);

// Returns "a, b, c".
std::string joined(const std::vector<std::string>& words);

}  // namespace tally::control
