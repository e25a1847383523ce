// A child process of a test: its output is read line by line, it is killed when the test ends.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace tally::testing {

class Process {
 public:
  // `variables`: "NAME=value", added to the environment. Throws when it cannot be started.
  explicit Process(const std::vector<std::string>& command,
                   const std::vector<std::string>& variables = {});
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  // The next line of its standard output, without the newline; empty when there is none within the
  // time or the output has ended.
  std::string line(int timeout_ms = 20'000);
  // Sends it a line.
  void tell(const std::string& text);
  void signal(int number) const { ::kill(pid_, number); }
  // Its exit status (128 + signal when killed); -1 when it does not end within the time.
  int wait(int timeout_ms = 20'000);
  // Waits until a signal has stopped it; false when none does within the time.
  bool stopped(int timeout_ms = 20'000);
  // Waits until its main thread sleeps in this system call (SYS_*); false when it does not within
  // the time.
  bool sleeps_in(long call, int timeout_ms = 20'000) const;
  // Nobody hears it any more, and it hears the end of its input.
  void hang_up() { input_.reset(); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  UniqueFd input_;
  std::string pending_;
};

}  // namespace tally::testing
