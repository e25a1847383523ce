// For the tests of this folder: programs as children, what they say and how they end.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace tally::control {

inline constexpr int kPatienceMs = 60'000;  // four that start at once, with sanitizers
inline constexpr int kReadyFd = 9;

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) std::abort();
    reader = UniqueFd(fds[0]);
    writer = UniqueFd(fds[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

inline std::string program(const char* variable) {
  const char* path = std::getenv(variable);
  return path == nullptr ? std::string() : path;
}

// A child process: its output, both streams together, and how it ends.
class Process {
 public:
  Process(std::vector<std::string> words, uid_t user = ::geteuid()) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(output_.writer.get(), STDOUT_FILENO);
      ::dup2(output_.writer.get(), STDERR_FILENO);
      ::dup2(ready_.writer.get(), kReadyFd);
      ::fcntl(kReadyFd, F_SETFD, 0);  // where it is the same already
      if (user != ::geteuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(126);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    output_.writer.reset();
    ready_.writer.reset();
  }
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { ::kill(pid_, number); }

  // "ready\n" came before the process ended.
  bool ready() {
    pollfd entry{ready_.reader.get(), POLLIN, 0};
    char text[6] = {};
    return ::poll(&entry, 1, kPatienceMs) == 1 &&
           ::read(ready_.reader.get(), text, sizeof text) == 6 &&
           std::string_view(text, 6) == "ready\n";
  }

  // Reads all it says, then its exit code; 1000 + the signal that killed it.
  int wait() {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::read(output_.reader.get(), buffer, sizeof buffer)) > 0) {
      said_.append(buffer, static_cast<std::size_t>(count));
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  // Of one that did not become ready: it may run on.
  const std::string& last_words() {
    signal(SIGKILL);
    wait();
    return said_;
  }

  const std::string& said() const { return said_; }
  bool said(std::string_view part) const { return said_.find(part) != std::string::npos; }

 private:
  Pipe output_;
  Pipe ready_;
  pid_t pid_ = -1;
  std::string said_;
};

}  // namespace tally::control
