#include "control/machine/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/system/fd.h"

namespace tally::control {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;  // of any file that is read
constexpr std::string_view kWhite = " \t\r\n";
constexpr int kMaxListed = 1 << 16;  // CPUs, nodes

Error unreadable(std::string_view path, int error) {
  Status status = Status::kInternal;
  if (error == ENOENT || error == ENOTDIR || error == ENODEV) status = Status::kUnavailable;
  if (error == EACCES || error == EPERM) status = Status::kRefused;
  return {status, fmt::format("{}: {}", path, std::strerror(error))};
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kWhite) - first + 1));
}

}  // namespace

Result<std::string> Files::read(std::string_view path) const {
  // The open does not block, because a path that looks like a file may be a pipe.
  const UniqueFd file(::open(at(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return unreadable(path, errno);
  std::string text;
  char buffer[4096];
  while (text.size() < kMaxBytes) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0) return unreadable(path, errno);
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return trimmed(text);
}

Result<std::uint64_t> Files::number(std::string_view path) const {
  const auto text = read(path);
  if (!text) return text.error();
  const auto value = leading_number(*text);
  if (!value) return Error{value.status(), fmt::format("{}: {}", path, value.error().message)};
  return value;
}

std::vector<std::string> Files::list(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator entry(at(path), failed);
  for (const std::filesystem::directory_iterator end; !failed && entry != end;
       entry.increment(failed)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

bool Files::exists(std::string_view path) const {
  return ::access(at(path).c_str(), F_OK) == 0;
}

std::vector<int> parse_list(std::string_view text) {
  std::vector<int> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    int last = first;
    if (read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) break;
    }
    if (first < 0 || last >= kMaxListed) break;
    for (int value = first; value <= last; ++value) values.push_back(value);
    if (read.ptr == end || *read.ptr != ',') break;
    at = read.ptr + 1;
  }
  return values;
}

Result<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) {
    return Error{Status::kInternal,
                 fmt::format("\"{}\" is not a number", text.substr(0, std::size_t{64}))};
  }
  return value;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string filled_in(std::string_view text, const std::string& name) {
  constexpr std::string_view kPlace = "{}";
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(kPlace, at)) != std::string::npos;) {
    result.replace(at, kPlace.size(), name);
    at += name.size();
  }
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace tally::control
