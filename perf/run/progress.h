// A progress bar on stderr for a person. It prints nothing when stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tally::perf {

class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws at most ten times a second.
  void show(const std::string& what, std::uint64_t done, std::uint64_t total);
  // The caller must call this before it prints anything else.
  void clear();

 private:
  bool on_;
  bool drawn_ = false;
  Nanos drawn_at_ = 0;
};

// Returns "resnet50 [#########           ]  45%". Public for the tests.
std::string progress_line(const std::string& what, std::uint64_t done, std::uint64_t total);

}  // namespace tally::perf
