#include "control/daemon/node_security.h"

#include <string_view>
#include <utility>

#include "control/daemon/private_file.h"

namespace tally::control {
namespace {

using net::auth::Secret;

constexpr std::string_view kKey = "security.secret_file";

}  // namespace

Result<NodeSecurity> make_security(const Config& config) {
  const SecurityConfig& options = config.security;
  NodeSecurity made{.access = std::make_shared<Access>(options.insecure, options.revoked_file),
                    .server = {.tls = {}, .plaintext = options.insecure},
                    .credentials = {}};
  net::auth::KeyRing& keys = made.access->keys();
  if (!options.secret_file.empty()) {
    auto text = read_private_line(kKey, options.secret_file,
                                  "it has no secret: `tallyctl token secret` makes one");
    if (!text) return text.error();
    auto secret = Secret::parse(*text);
    if (!secret) return bad_private_file(kKey, options.secret_file, secret.error().message);
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
