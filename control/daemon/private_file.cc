#include "control/daemon/private_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace tally::control {

Error bad_private_file(std::string_view key, const std::string& path, std::string_view why) {
  return invalid(fmt::format("{} \"{}\": {}", key, path, why));
}

Result<std::string> read_private_line(std::string_view key, const std::string& path,
                                      std::string_view remedy) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return bad_private_file(key, path, std::strerror(errno));
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return bad_private_file(key, path,
                            fmt::format("others can read it or change it: chmod 0600 {}", path));
  }
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return bad_private_file(key, path, file.is_open() ? remedy : std::strerror(errno));
  }
  return line;
}

}  // namespace tally::control
