#include "perf/run/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/system/fd.h"

namespace tally::perf {
namespace {

constexpr int kFirstFreeFd = 64;  // above every descriptor that a child receives

// Runs between fork and exec: calls only async-signal-safe functions, and does not return.
[[noreturn]] void become(const ChildProcess::Start& start, char* const* arguments, pid_t parent,
                         int report) {
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, start.signal_when_orphaned);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Moves descriptors out of the way first, then into place, so that no move overwrites another's
  // source.
  std::array<int, 8> moved{};
  for (std::size_t i = 0; i < start.descriptors.size() && i < moved.size(); ++i) {
    moved[i] = fcntl(start.descriptors[i].first, F_DUPFD_CLOEXEC, kFirstFreeFd);
  }
  for (std::size_t i = 0; i < start.descriptors.size() && i < moved.size(); ++i) {
    if (dup2(moved[i], start.descriptors[i].second) < 0) break;
  }
  execvp(arguments[0], arguments);
  const int error = errno;
  const ssize_t written = write(report, &error, sizeof error);
  _exit(written < 0 ? 126 : 127);
}

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

ChildProcess::~ChildProcess() {
  stop(0);
}

Result<ChildProcess> ChildProcess::start(const Start& start) {
  std::vector<std::string> command = start.command;
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  // A successful exec closes the pipe. Otherwise the pipe carries the error.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return Error{Status::kInternal, std::strerror(errno)};
  UniqueFd reading(report[0]);
  UniqueFd writing(report[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Error{Status::kInternal, fmt::format("fork: {}", std::strerror(errno))};
  if (pid == 0) {
    const int high = fcntl(writing.get(), F_DUPFD_CLOEXEC, 2 * kFirstFreeFd);
    become(start, arguments.data(), parent, high);
  }
  ChildProcess child(pid);
  writing.reset();
  int error = 0;
  if (read(reading.get(), &error, sizeof error) == sizeof error) {
    return Error{Status::kUnavailable,
                 fmt::format("cannot run {}: {}", start.command[0], std::strerror(error))};
  }
  return child;
}

std::optional<std::string> ChildProcess::ended() {
  if (pid_ <= 0) return "never started";
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (WIFEXITED(status)) exit_status_ = WEXITSTATUS(status);
  return describe(status);
}

void ChildProcess::ask_to_end() {
  if (pid_ > 0) kill(pid_, SIGTERM);
}

void ChildProcess::stop(Nanos timeout) {
  if (pid_ <= 0) return;
  const Nanos until = monotonic_now() + timeout;
  if (timeout > 0) ask_to_end();
  while (monotonic_now() < until) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return;
    }
    usleep(2000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string own_directory() {
  const std::string path = own_path();
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace tally::perf
