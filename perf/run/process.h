// Child processes that end with this process, whether it ends normally, by an exception or by a
// signal.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace tally::perf {

class ChildProcess {
 public:
  struct Start {
    std::vector<std::string> command;              // program and arguments
    std::vector<std::pair<int, int>> descriptors;  // (ours, its); the child inherits only these
    int signal_when_orphaned = 9;                  // PR_SET_PDEATHSIG
  };

  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Kills the process if it still runs.
  ~ChildProcess();

  // Starts a child in its own process group, so that a Ctrl-C reaches only this process, which then
  // ends its children in order. Precondition: every descriptor that is not named is close-on-exec.
  static Result<ChildProcess> start(const Start& start);

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // Returns "exit status 3" or "signal 9 (Killed)" once after the process has ended; nullopt while
  // it runs.
  std::optional<std::string> ended();
  // The exit status after ended() returned a text; -1 when a signal ended the process.
  int exit_status() const { return exit_status_; }

  // Sends SIGTERM if the process still runs.
  void ask_to_end();
  // Asks the process to end, waits up to `timeout`, then kills it. Does nothing when it has ended.
  void stop(Nanos timeout);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  int exit_status_ = -1;
};

// The directory of this program, and the path of the program; "" when unknown.
std::string own_directory();
std::string own_path();

}  // namespace tally::perf
