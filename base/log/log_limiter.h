// Limits how much of the log one reason can fill. It allows a number of lines of each reason per
// time span, and counts the lines left out. Pure: time is an argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace tally::log {

class Limiter {
 public:
  explicit Limiter(std::uint32_t lines_of_reason = 10, Nanos span = kSecond)
      : lines_(lines_of_reason), span_(span) {}

  // Whether the caller may write a line for this reason now. If not, the limiter counts it. A peer
  // must not choose the reason; reasons beyond kMostReasons share one count.
  bool allows(std::string_view reason, Nanos now);

  struct LeftOut {
    std::string reason;
    std::uint64_t lines = 0;
  };
  // The number of lines left out for each reason, once the first of them is one span old. Each line
  // is reported once.
  std::vector<LeftOut> take_left_out(Nanos now);
  // True when take_left_out() has lines still to report.
  bool has_left_out() const { return left_out_ > 0; }

 private:
  static constexpr std::size_t kMostReasons = 64;

  struct Window {
    Nanos began = 0;
    std::uint32_t written = 0;
    std::uint64_t left_out = 0;
    Nanos left_out_since = 0;
  };

  Window& window_of(std::string_view reason, Nanos now);

  std::uint32_t lines_;
  Nanos span_;
  std::map<std::string, Window, std::less<>> windows_;
  std::uint64_t left_out_ = 0;
};

}  // namespace tally::log
