// For tests: stdout on a full disk, as long as the object lives.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/system/fd.h"

namespace tally::test {

class FullStdout {
 public:
  FullStdout() {
    std::fflush(stdout);
    before_ = UniqueFd(::dup(STDOUT_FILENO));
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ::dup2(full.get(), STDOUT_FILENO);
  }
  FullStdout(const FullStdout&) = delete;
  FullStdout& operator=(const FullStdout&) = delete;
  ~FullStdout() {
    std::fflush(stdout);
    std::clearerr(stdout);
    ::dup2(before_.get(), STDOUT_FILENO);
  }

 private:
  UniqueFd before_;
};

}  // namespace tally::test
