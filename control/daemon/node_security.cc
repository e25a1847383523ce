#include "control/daemon/node_security.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/log/log.h"

namespace tally::control {
namespace {

using net::auth::Secret;

Error bad_file(const std::string& path, std::string_view why) {
  return invalid(fmt::format("security.secret_file \"{}\": {}", path, why));
}

// The first line of the file, which only its owner and its group may read.
Result<std::string> read_secret(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return bad_file(path, std::strerror(errno));
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return bad_file(path, fmt::format("others can read it or change it: chmod 0600 {}", path));
  }
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return bad_file(path, file.is_open() ? "it has no secret: `tallyctl token secret` makes one"
                                         : std::strerror(errno));
  }
  return line;
}

}  // namespace

Result<NodeSecurity> make_security(const Config& config) {
  const SecurityConfig& options = config.security;
  NodeSecurity made{.access = std::make_shared<Access>(options.insecure, options.revoked_file),
                    .server = {.tls = {}, .plaintext = options.insecure},
                    .credentials = {}};
  net::auth::KeyRing& keys = made.access->keys();
  if (!options.secret_file.empty()) {
    auto text = read_secret(options.secret_file);
    if (!text) return text.error();
    auto secret = Secret::parse(*text);
    if (!secret) return bad_file(options.secret_file, secret.error().message);
    if (auto added = keys.add_secret(std::move(*secret)); !added) return added.error();
    made.credentials = net::tls::Credentials(std::move(*text));
  } else if (options.certificates.any()) {
    made.credentials = net::tls::Credentials(options.certificates);
  }
  if (auto read = made.access->read_revoked(); !read) return read.error();
  if (config.listen_tcp.empty()) return made;
  for (const ConfiguredJob& job : config.jobs) {
    if (job.token.empty() || net::auth::is_made_by_tally(job.token)) continue;
    if (auto added = keys.add_chosen(job.token, job.name); !added) return added.error();
  }
  if (keys.empty() && !options.certificates.any()) return made;
  const auto find = [access = made.access](std::string_view identity) {
    return access->keys().find(identity, Access::now());
  };
  auto context = net::tls::ServerContext::make(find, options.certificates);
  if (!context) return context.error();
  made.server.tls = std::move(*context);
  return made;
}

}  // namespace tally::control
