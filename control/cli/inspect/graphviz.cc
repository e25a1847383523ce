#include "control/cli/inspect/graphviz.h"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/system/fd.h"

extern char** environ;

namespace tally::control {
namespace {

constexpr std::size_t kLongestComplaint = 300;   // bytes
constexpr Nanos kLookEvery = 10 * kMillisecond;  // whether the program has ended
constexpr const char* kRemedy = "draw a single tree (--tree N), or leave out --svg";

Error no_file(int error) {
  return {Status::kInternal, fmt::format("no memory for the picture: {}", std::strerror(error))};
}

// A file without a name. So neither side of the program waits for the other, as with pipes.
Result<UniqueFd> file_with(std::string_view text) {
  UniqueFd file(::memfd_create("tallyctl-dot", MFD_CLOEXEC));
  if (!file) return no_file(errno);
  for (std::size_t written = 0; written < text.size();) {
    const auto some = ::write(file.get(), text.data() + written, text.size() - written);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return no_file(errno);
    written += static_cast<std::size_t>(some);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

Result<std::string> content_of(const UniqueFd& file) {
  const auto size = ::lseek(file.get(), 0, SEEK_END);
  std::string text(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  for (std::size_t done = 0; done < text.size();) {
    const auto some =
        ::pread(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return no_file(errno);
    done += static_cast<std::size_t>(some);
  }
  return text;
}

// What the program starts with: its standard streams.
class Streams {
 public:
  Streams() { ::posix_spawn_file_actions_init(&actions_); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() { ::posix_spawn_file_actions_destroy(&actions_); }

  void set(int stream, const UniqueFd& file) {
    ::posix_spawn_file_actions_adddup2(&actions_, file.get(), stream);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

Error not_started(const std::string& program, int error) {
  const std::string what = fmt::format("{}: cannot be started: {}", program, std::strerror(error));
  return {Status::kUnsupported,
          what +
              "; install Graphviz (Debian: apt install graphviz), or leave out --svg and give "
              "the text to dot on another machine"};
}

// How the program ended, as waitpid() has it.
Result<int> end_of(pid_t child, const std::string& program, Nanos limit) {
  const Nanos deadline = monotonic_now() + limit;
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return not_started(program, errno);
    if (monotonic_now() >= deadline) break;
    const timespec pause{0, kLookEvery};
    ::nanosleep(&pause, nullptr);
  }
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return Error{Status::kDeadline, fmt::format("{} needed more than {:g} s; {}", program,
                                              static_cast<double>(limit) / kSecond, kRemedy)};
}

Result<int> run_to_end(const std::string& program, const Streams& streams, Nanos limit) {
  std::string format = "-Tsvg", name = program;
  char* const words[] = {name.data(), format.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, program.c_str(), streams.get(), nullptr, words, environ);
  if (error != 0) return not_started(program, error);
  return end_of(child, program, limit);
}

std::string end_text(int status) {
  return WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                             : fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::string> svg_of(const std::string& text, const std::string& program, Nanos limit) {
  const auto in = file_with(text), out = file_with(""), complaints = file_with("");
  for (const auto* file : {&in, &out, &complaints}) {
    if (!*file) return file->error();
  }
  Streams streams;
  streams.set(STDIN_FILENO, *in);
  streams.set(STDOUT_FILENO, *out);
  streams.set(STDERR_FILENO, *complaints);
  const auto ended = run_to_end(program, streams, limit);
  if (!ended) return ended.error();
  if (*ended == 0) {
    auto picture = content_of(*out);
    if (!picture || !picture->empty()) return picture;
    return Error{Status::kInternal,
                 fmt::format("{} drew nothing; give Graphviz's dot with --dot", program)};
  }
  auto complaint = content_of(*complaints);
  if (!complaint) return complaint.error();
  return Error{Status::kInternal, fmt::format("{} {}: {}; {}", program, end_text(*ended),
                                              complaint->substr(0, kLongestComplaint), kRemedy)};
}

}  // namespace tally::control
