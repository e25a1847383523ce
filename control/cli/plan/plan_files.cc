#include "control/cli/plan/plan_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "control/plan/json/plan_json.h"

namespace tally::control {

Result<std::string> read_file(const std::string& path, std::string_view kind) {
  std::ifstream file(path, std::ios::binary);
  std::string text(plan::kMaxPlanBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: cannot be read: {}; give {}", path, std::strerror(errno), kind)};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Result<OutputFile> create_out(const std::string& path) {
  auto file = OutputFile::create(path);
  if (file) return file;
  return Error{file.status(), file.error().message + "; give another --out"};
}

Outcome write_out(const std::string& path, std::string_view text) {
  const auto written = write_file(path, text);
  if (written) return written;
  return Error{written.status(), written.error().message + "; give another --out"};
}

}  // namespace tally::control
