#include "client/address.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace tally::client {
namespace {

constexpr std::string_view kScheme = "unix:";

// Secure: a set-user-id program must not be led elsewhere by its caller's environment.
std::string_view environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

}  // namespace

Result<UnixAddress> parse_address(std::string_view address) {
  std::string_view path = address;
  if (path.starts_with(kScheme)) {
    path.remove_prefix(kScheme.size());
  } else if (!path.starts_with('/')) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("address \"{}\" is not understood: write unix:/path/of/the/socket", address)};
  }
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return Error{Status::kInvalidArgument,
                 fmt::format("address \"{}\" has no path: write unix:/path/of/the/socket",
                             address.substr(0, address.find('\0')))};
  }
  UnixAddress parsed;
  constexpr std::size_t kMaxPath = sizeof(parsed.socket.sun_path) - 1;
  if (path.size() > kMaxPath) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("socket path \"{}\" has {} bytes; Unix sockets allow {}: use a shorter "
                    "path",
                    path, path.size(), kMaxPath)};
  }
  parsed.path = path;
  parsed.socket.sun_family = AF_UNIX;
  std::memcpy(parsed.socket.sun_path, path.data(), path.size());
  return parsed;
}

std::string default_listen_address() {
  if (::geteuid() == 0) return std::string(kSystemAddress);
  if (const auto directory = environment("XDG_RUNTIME_DIR"); !directory.empty()) {
    return fmt::format("unix:{}/tally/tallyd.sock", directory);
  }
  return fmt::format("unix:/tmp/tally-{}/tallyd.sock", ::geteuid());
}

std::string default_connect_address() {
  if (const auto address = environment("TALLY_ADDRESS"); !address.empty()) {
    return std::string(address);
  }
  struct stat info {};
  const std::string system(kSystemAddress);
  if (::stat(system.c_str() + kScheme.size(), &info) == 0 && S_ISSOCK(info.st_mode)) return system;
  return default_listen_address();
}

}  // namespace tally::client
