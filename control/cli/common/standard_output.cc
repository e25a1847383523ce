#include "control/cli/common/standard_output.h"

#include <fmt/format.h>

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

std::string not_written(int why) {
  return fmt::format("stdout: cannot be written: {}", std::strerror(why));
}

}  // namespace

Outcome write_stdout(std::string_view text) {
  const int why = write_and_flush(text);
  if (why == 0 || why == EPIPE) return Unit{};
  return invalid(not_written(why));
}

bool print_out(std::string_view text, std::string_view program) {
  const int why = write_and_flush(text);
  if (why != 0 && why != EPIPE) fmt::print(stderr, "{}: {}\n", program, not_written(why));
  return why == 0;
}

}  // namespace tally::control
