#include "control/cli/common/standard_output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tally::control {
namespace {

// Returns 0 or errno.
int write_and_flush(std::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return is_written ? 0 : errno;
}

}  // namespace

Outcome write_stdout(std::string_view text) {
  const int why = write_and_flush(text);
  if (why == 0 || why == EPIPE) return Unit{};
  return invalid(fmt::format("stdout: cannot be written: {}", std::strerror(why)));
}

bool print_out(std::string_view text, std::string_view program) {
  const auto written = write_stdout(text);
  if (!written) fmt::print(stderr, "{}: {}\n", program, written.error().message);
  return written.ok();
}

bool is_unread() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

}  // namespace tally::control
