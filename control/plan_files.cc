#include "control/plan_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "control/plan/plan_json.h"

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

Outcome write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (out << text && out.flush()) return Unit{};
  return Error{Status::kInvalidArgument,
               fmt::format("cannot write {}: {}; give another --out", path, std::strerror(errno))};
}

}  // namespace tally::control
