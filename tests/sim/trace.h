// The trace that a replayed seed prints. Prints nothing when it is off.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "base/clock.h"

namespace tally::sim {

// A broken invariant.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void violated(fmt::format_string<Args...> format, Args&&... args) {
  throw Violation(fmt::format(format, std::forward<Args>(args)...));
}

class Trace {
 public:
  explicit Trace(bool on) : on_(on) {}
  bool on() const { return on_; }

  template <typename... Args>
  void write(Nanos now, fmt::format_string<Args...> format, Args&&... args) const {
    if (!on_) return;
    fmt::print("{:>12.3f} us  {}\n", static_cast<double>(now) / 1000,
               fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  bool on_;
};

}  // namespace tally::sim
