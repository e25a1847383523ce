// For tests: stdout on a full disk or another file, as long as the object lives.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/system/fd.h"

namespace tally::test {

class StdoutTo {
 public:
  explicit StdoutTo(const UniqueFd& file) {
    std::fflush(stdout);
    before_ = UniqueFd(::dup(STDOUT_FILENO));
    ::dup2(file.get(), STDOUT_FILENO);
  }
  StdoutTo(const StdoutTo&) = delete;
  StdoutTo& operator=(const StdoutTo&) = delete;
  ~StdoutTo() {
    std::fflush(stdout);
    std::clearerr(stdout);
    ::dup2(before_.get(), STDOUT_FILENO);
  }

 private:
  UniqueFd before_;
};

inline StdoutTo full_stdout() {
  return StdoutTo(UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)));
}

}  // namespace tally::test
