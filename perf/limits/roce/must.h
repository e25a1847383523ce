// How the programs of the measurement end when something is wrong.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/result.h"

namespace tally::perf {

// Ends the process without destructors, because other threads still run.
[[noreturn]] inline void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::_Exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(result).value();
}

}  // namespace tally::perf
