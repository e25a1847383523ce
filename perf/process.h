// Children that do not outlive us: not a normal end, not an exception, not our own violent death.
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
    std::vector<std::pair<int, int>> descriptors;  // (ours, its): inherited, all others are not
    int signal_when_orphaned = 9;                  // PR_SET_PDEATHSIG
  };

  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Kills what still runs.
  ~ChildProcess();

  // In a process group of its own, so that a Ctrl-C reaches it only through us, in order. Every
  // descriptor that is not named must be close-on-exec.
  static Result<ChildProcess> start(const Start& start);

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // "exit status 3", "signal 9 (Killed)", once it has ended; nullopt while it runs.
  std::optional<std::string> ended();
  // When ended() has said how: the exit status; -1: a signal.
  int exit_status() const { return exit_status_; }

  // SIGTERM, if it still runs.
  void ask_to_end();
  // Asks, waits up to `patience`, then kills. Nothing when it has ended.
  void stop(Nanos patience);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  int exit_status_ = -1;
};

// The directory of this program ("" when unknown), and the program itself.
std::string own_directory();
std::string own_path();

}  // namespace tally::perf
