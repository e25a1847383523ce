#include "tests/fault/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "base/clock.h"

extern char** environ;

namespace tally::testing {

Process::Process(const std::vector<std::string>& command,
                 const std::vector<std::string>& variables) {
  int out[2], in[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(in, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  output_ = UniqueFd(out[0]);
  input_ = UniqueFd(in[1]);
  const UniqueFd child_output(out[1]), child_input(in[0]);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (const std::string& variable : variables) {
    environment.push_back(const_cast<char*>(variable.c_str()));
  }
  for (char** own = environ; *own != nullptr; ++own) environment.push_back(*own);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_input.get(), STDIN_FILENO);
  const int failed =
      ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + command[0]);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      input_(std::move(other.input_)),
      pending_(std::move(other.pending_)) {}

Process::~Process() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Process::line(int timeout_ms) {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    const Nanos left = deadline - monotonic_now();
    pollfd waiter{output_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&waiter, 1, static_cast<int>(left / kMillisecond) + 1) <= 0) return "";
    char bytes[4096];
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got <= 0) return std::exchange(pending_, "");
    pending_.append(bytes, static_cast<std::size_t>(got));
  }
}

void Process::tell(const std::string& text) {
  const std::string with_newline = text + "\n";
  if (::write(input_.get(), with_newline.data(), with_newline.size()) < 0) {
    throw std::runtime_error("the process does not listen");
  }
}

int Process::wait(int timeout_ms) {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(pid_, &status, WNOHANG);
    if (done == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (done < 0 || monotonic_now() >= deadline) return -1;
    ::poll(nullptr, 0, 5);
  }
}

bool Process::stopped(int timeout_ms) {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  for (;;) {
    int status = 0;
    const pid_t changed = ::waitpid(pid_, &status, WNOHANG | WUNTRACED);
    if (changed == pid_) {
      if (!WIFSTOPPED(status)) pid_ = -1;
      return WIFSTOPPED(status);
    }
    if (changed < 0 || monotonic_now() >= deadline) return false;
    ::poll(nullptr, 0, 5);
  }
}

// "running", or the number of the call and its arguments.
bool Process::sleeps_in(long call, int timeout_ms) const {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  const std::string path = "/proc/" + std::to_string(pid_) + "/syscall";
  while (monotonic_now() < deadline) {
    long current = -1;
    if (std::ifstream(path) >> current && current == call) return true;
    ::poll(nullptr, 0, 5);
  }
  return false;
}

}  // namespace tally::testing
