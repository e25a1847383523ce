// A child process of a test, in a process group of its own.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/fd.h"

namespace tally::testing {

inline constexpr int kEndMs = 60'000;  // enough for four that start at once, with sanitizers

class Process {
 public:
  // environment has "NAME=value", added to that of the test.
  explicit Process(std::vector<std::string> command, std::vector<std::string> environment = {},
                   uid_t user = ::geteuid());
  // Kills the group. Prints the output when the test has failed.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of its standard output, without the newline. Empty when no line comes within the
  // timeout, or when the output has ended.
  std::string line(int timeout_ms = 20'000);
  // Writes a line to its standard input. Throws std::runtime_error when nobody reads it any more.
  void send(const std::string& text);
  void close_input() { input_.reset(); }
  // SIGSTOP pauses it, SIGCONT continues it.
  void signal(int number) const;
  // Waits for its end. Returns its exit status (128 + signal when a signal killed it), or -1 when
  // it does not end within the timeout.
  int wait(int timeout_ms = kEndMs);
  // Waits until a signal has stopped it. Returns false after the timeout.
  bool stopped(int timeout_ms = 20'000);
  // Waits until its main thread sleeps in this system call (SYS_*). Returns false after the
  // timeout.
  bool sleeps_in(long call, int timeout_ms = 20'000) const;
  pid_t pid() const { return pid_; }

  // Everything that it has printed, the standard output first.
  std::string output();
  bool printed(std::string_view part) { return output().find(part) != std::string::npos; }

 private:
  // Returns false when nothing comes within the timeout.
  bool read_some(int timeout_ms);
  // Waits for its end, or what the flags of waitpid() add. Returns the status of waitpid().
  std::optional<int> wait_for(int flags, int timeout_ms);

  std::string name_;
  pid_t pid_ = -1;  // -1 after its end
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd errors_;  // a file in memory, so that a child never waits for a reader
  std::string text_;
  std::size_t taken_ = 0;  // bytes of text_ that line() has returned
};

}  // namespace tally::testing
