// The log: one line per event on stderr, in key=value form, for people and machines alike:
//   time=2026-01-31T12:00:00.123+0100 level=info event=ready address=unix:/run/tally/tallyd.sock
// The data path must not call it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tally::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };

// A field of an event. The log quotes the value when that is necessary.
struct Field {
  std::string_view key;
  std::string value;

  template <typename T>
  Field(std::string_view k, const T& v) : key(k), value(fmt::format("{}", v)) {}
};

// Must be called once, before the first event.
void start(Level level);

void event(Level level, std::string_view name, std::initializer_list<Field> fields);

inline void debug(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kDebug, name, fields);
}
inline void info(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kInfo, name, fields);
}
inline void warning(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kWarning, name, fields);
}
inline void error(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kError, name, fields);
}

// The text as a value of the log. It is quoted and escaped when it has spaces, quotes or control
// characters, because a peer chooses some of these texts and must not forge lines.
std::string quoted(std::string_view text);

}  // namespace tally::log
