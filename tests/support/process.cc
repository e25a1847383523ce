#include "tests/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fstream>
#include <iostream>
#include <stdexcept>

#include "base/clock.h"

extern char** environ;

namespace tally::testing {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    reader = UniqueFd(fds[0]);
    writer = UniqueFd(fds[1]);
  }
  UniqueFd reader;
  UniqueFd writer;
};

// For execve(). The strings stay with the caller.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  return pointers;
}

}  // namespace

Process::Process(std::vector<std::string> command, std::vector<std::string> environment, uid_t user)
    : name_(command[0]), errors_(::memfd_create("errors", MFD_CLOEXEC)) {
  ::signal(SIGPIPE, SIG_IGN);  // send() to a process that has ended throws, and the test goes on
  Pipe input, output;
  std::vector<char*> arguments = pointers_to(command), variables = pointers_to(environment);
  arguments.push_back(nullptr);
  for (char** own = environ; *own != nullptr; ++own) variables.push_back(*own);
  variables.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot start " + name_);
  if (pid_ == 0) {  // other threads do not exist here, so nothing may allocate
    ::setpgid(0, 0);
    ::dup2(input.reader.get(), STDIN_FILENO);
    ::dup2(output.writer.get(), STDOUT_FILENO);
    ::dup2(errors_.get(), STDERR_FILENO);
    if (user != ::geteuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(126);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // setuid() clears it
    ::signal(SIGPIPE, SIG_DFL);          // what is ignored stays so
    ::execve(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);  // both sides, because either may be first
  input_ = std::move(input.writer);
  output_ = std::move(output.reader);
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    wait();
  }
  if (::testing::Test::HasFailure()) std::cerr << "output of " << name_ << ":\n" << output();
}

bool Process::read_some(int timeout_ms) {
  pollfd entry{output_.get(), POLLIN, 0};  // poll() only sleeps when the descriptor is -1
  if (::poll(&entry, 1, timeout_ms) <= 0) return false;
  char bytes[4096];
  const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
  if (got > 0) text_.append(bytes, static_cast<std::size_t>(got));
  if (got <= 0) output_.reset();
  return got > 0;
}

std::string Process::line(int timeout_ms) {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  std::size_t end = 0;
  while ((end = text_.find('\n', taken_)) == std::string::npos && output_) {
    const Nanos left = deadline - monotonic_now();
    if (left <= 0) return "";
    read_some(static_cast<int>(left / kMillisecond) + 1);
  }
  const std::string line = text_.substr(taken_, end - taken_);
  taken_ = end == std::string::npos ? text_.size() : end + 1;
  return line;
}

void Process::send(const std::string& text) {
  const std::string with_newline = text + "\n";
  if (::write(input_.get(), with_newline.data(), with_newline.size()) < 0) {
    throw std::runtime_error(name_ + " has ended, or closed its input");
  }
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<int> Process::wait_for(int flags, int timeout_ms) {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  while (pid_ > 0) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG | flags) == pid_) {
      if (!WIFSTOPPED(status)) pid_ = -1;
      return status;
    }
    if (monotonic_now() >= deadline) break;
    read_some(5);  // a child whose output nobody reads does not end
  }
  return std::nullopt;
}

int Process::wait(int timeout_ms) {
  const auto status = wait_for(0, timeout_ms);
  if (!status) return -1;
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

bool Process::stopped(int timeout_ms) {
  const auto status = wait_for(WUNTRACED, timeout_ms);
  return status && WIFSTOPPED(*status);
}

// The file has "running", or the number of the call and its arguments.
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

std::string Process::output() {
  while (read_some(0)) {
  }
  std::string all = text_;
  char bytes[4096];
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(errors_.get(), bytes, sizeof bytes, at)) > 0; at += got) {
    all.append(bytes, static_cast<std::size_t>(got));
  }
  return all;
}

}  // namespace tally::testing
