#include "control/cli/inspect/graphviz.h"

#include <errno.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/system/fd.h"

extern char** environ;

namespace tally::control {
namespace {

constexpr std::size_t kLongestComplaint = 300;  // bytes

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
Result<int> run_to_end(const std::string& program, const Streams& streams) {
  std::string format = "-Tsvg", name = program;
  char* const words[] = {name.data(), format.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, program.c_str(), streams.get(), nullptr, words, environ);
  if (error != 0) return not_started(program, error);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return not_started(program, errno);
  }
  return status;
}

std::string end_text(int status) {
  return WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                             : fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::string> svg_of(const std::string& text, const std::string& program) {
  const auto in = file_with(text), out = file_with(""), complaints = file_with("");
  for (const auto* file : {&in, &out, &complaints}) {
    if (!*file) return file->error();
  }
  Streams streams;
  streams.set(STDIN_FILENO, *in);
  streams.set(STDOUT_FILENO, *out);
  streams.set(STDERR_FILENO, *complaints);
  const auto ended = run_to_end(program, streams);
  if (!ended) return ended.error();
  if (*ended == 0) return content_of(*out);
  auto complaint = content_of(*complaints);
  if (!complaint) return complaint.error();
  return Error{Status::kInternal,
               fmt::format("{} {}: {}; draw a single tree (--tree), or leave out --svg", program,
                           end_text(*ended), complaint->substr(0, kLongestComplaint))};
}

}  // namespace tally::control
